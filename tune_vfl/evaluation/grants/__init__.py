"""Grants: the kinds of knowledge that a threat model may give an attack. One grant, one file."""

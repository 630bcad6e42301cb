"""Attacks: one method, one file."""

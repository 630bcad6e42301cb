"""Defenses: one method, one file."""

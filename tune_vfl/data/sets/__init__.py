"""Data sets: one set, one file."""

"""Utility, attack success, and the geometry of a front."""

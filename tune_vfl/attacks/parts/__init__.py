"""Shared parts of attacks."""

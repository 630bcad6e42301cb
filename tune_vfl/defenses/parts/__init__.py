"""Shared parts of defenses."""

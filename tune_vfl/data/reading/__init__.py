"""Readers of files: formats, text, pictures, and the shared parts of loaders."""

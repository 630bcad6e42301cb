"""Federations: how the data lie, and how all participants train together. One kind of federation, one file."""

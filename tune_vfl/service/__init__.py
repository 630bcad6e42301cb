"""Searches on a cluster: submitting them, and the health of what they stand on."""

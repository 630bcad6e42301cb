"""Models with leading axes if they can be stacked."""

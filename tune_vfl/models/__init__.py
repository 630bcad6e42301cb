"""Models, written for leading axes where they can be stacked."""

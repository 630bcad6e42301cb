"""The split-training loop, its hooks, and the views of adversaries."""

"""The split-training loop, its hooks, and what an adversary may see."""

"""The loop of trees: columns in bins, trees grown level by level, and the rounds that boost them."""

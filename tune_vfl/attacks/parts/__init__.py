"""What several attacks are made of."""

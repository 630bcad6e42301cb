"""What samplers are made of."""

"""What several defenses are made of."""

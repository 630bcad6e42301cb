"""What a study searches: domains of parameters, the named spaces of defenses, domains in training and model."""

"""Results of a campaign's studies together: the joint front, constraints, and the decision which setting to deploy."""

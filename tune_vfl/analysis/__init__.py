"""Analysis of measured settings: fronts, bounds, compromises, selection, and the decision which setting to deploy."""

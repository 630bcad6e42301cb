"""The verbs a person types."""

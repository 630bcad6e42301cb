"""Contract suites: what every registered method is held to."""

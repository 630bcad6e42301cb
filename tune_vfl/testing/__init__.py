"""Contract suites: tests that every registered method must pass."""

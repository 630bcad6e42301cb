"""MLflow as a projection of the ledger: all that it shows can be rebuilt from there."""

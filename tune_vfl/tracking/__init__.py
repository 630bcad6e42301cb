"""MLflow, a projection of the ledger."""

"""Export of the ledger's studies to MLflow; every run can be rebuilt from the ledger."""

"""The ledger: the database of studies, trials, outcomes, confirmations and leases."""

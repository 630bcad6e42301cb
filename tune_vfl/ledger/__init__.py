"""What is asked and what came back: the ledger, its records, and reading and choosing from them."""

"""What verbs do with a ledger and a machine: studies by name, health, repair, reports."""

"""The process that runs a search: plan studies, propose trials, store outcomes, resume."""

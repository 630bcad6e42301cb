"""Studies, campaigns and their confirmations as plain data, without a database."""

"""A Ray that runs elsewhere: its dashboard and token, its jobs, clusters by name, and the studies that they run."""

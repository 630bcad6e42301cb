"""Jobs in Ray's workers: runner, queue, retries, capacity, time limits. Nothing else imports Ray to run work."""

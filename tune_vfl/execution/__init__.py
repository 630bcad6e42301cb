"""Packs of trials in Ray's workers: sessions, capacity, time limits, failures. Nothing else imports Ray to run work."""

"""Benchmarks: run by hand, ratios within one run, medians; results are kept in README.md here."""

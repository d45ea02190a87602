"""Benchmarks: ratios to the raw limit and to peers, measured in one run."""

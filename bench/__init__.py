"""Benchmarks: Sojourn against bare Temporal and against other agent libraries on Temporal."""

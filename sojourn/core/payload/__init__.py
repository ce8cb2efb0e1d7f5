"""Check one call at the tool boundary: its arguments, then its result.

Arguments are parsed and validated, the result is validated, and each failure has a `RetryHint`. The package
decides what goes into a tool, what comes out, and what a planner learns of a failed call. It may import
`schema` and `values`, not runs. Begin with `boundary.py`, which holds the order, then `hints.py`.
"""

"""One call at the tool boundary: its arguments parsed and validated, its result validated, each failure with a `RetryHint`.

The package decides what goes into a tool, what comes out, and what a planner learns of a failed call; it may
import `schema` and `values`, not runs. Begin with `boundary.py`, which holds the order, then `hints.py`.
"""

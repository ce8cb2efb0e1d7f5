"""One call at the tool boundary: its arguments parsed and validated, its result validated, each failure with a `RetryHint`.

It decides what goes into a tool, what comes out, and what a planner learns of a failed call; it may import
schemas and tool specs, not runs. Begin with `boundary.py`, which holds the order, then `hints.py`.
"""

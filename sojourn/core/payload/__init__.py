"""One call at the tool boundary: its arguments read and checked, its result checked, each fault a `RetryHint`.

It decides what goes into a tool, what comes out, and what a planner is told of a failed call; it knows schemas and
tool specs, no run. Begin with `boundary.py`, which holds the order, then `hints.py`.
"""

"""Check one call at the tool boundary: its arguments, then its result.

The package decides what goes into a tool, what comes out, and what a planner learns of a failed call. Begin
with `boundary.py`, which holds the order, then `hints.py`.
"""

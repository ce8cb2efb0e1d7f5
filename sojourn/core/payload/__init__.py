"""Check one call at the tool boundary: its arguments, then its result.

The package decides on the input and output of a tool, and on what a planner learns of a failed call. Begin
with `boundary.py`, which holds the order, then `hints.py`.
"""

"""Repairs of failed calls that a planner may make without a model: a payload repaired safely, a call repeated or replaced.

The package decides what may change without asking a person; it may import `awaits` and the packages below it,
not `run`. Begin with `calls.py`; `payload.py` has the safe repairs of a payload.
"""

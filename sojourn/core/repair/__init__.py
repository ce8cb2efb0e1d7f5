"""Repair failed calls without a model.

A planner may repair a payload safely, repeat a call, or make another call in its place. The package decides
what may change without asking a person. It may import `awaits` and the packages below it, not `run`. Begin
with `calls.py`. `payload.py` has the safe repairs of a payload.
"""

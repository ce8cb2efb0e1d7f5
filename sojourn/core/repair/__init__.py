"""Repairs of failed calls that a planner may make without a model: a payload repaired safely, a call repeated or replaced.

It decides what may change without asking a person; it may import payloads, forms and the transcript's last
step, not policies. Begin with `calls.py`; `payload.py` has the safe repairs of a payload.
"""

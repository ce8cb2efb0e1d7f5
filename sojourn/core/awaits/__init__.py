"""The waits of a run, and how messages from outside answer them.

Begin with `waits.py` (the open waits) and `kinds.py`, the table of kinds, each with its own file.
"""

"""What stops a planner that makes no progress: errors that come back three times, and loops (ME-1 to ME-15).

It decides after each step, in call order, whether the next turn is the last; it may import results, not the
limits of a policy. Begin with `judge.py`; classes of errors are a table in `error_classes.py`.
"""

"""What stops a planner that makes no progress: errors that come back three times, and loops (ME-1 to ME-15).

The package decides after each step, in call order, whether the next turn is the last; it may import `values`,
not the limits of a policy. Begin with `judge.py`; classes of errors are a table in `error_classes.py`.
"""

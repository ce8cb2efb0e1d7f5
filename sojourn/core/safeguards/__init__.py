"""What stops a planner that does not get on: errors that come back three times, and loops (ME-1 to ME-15).

It decides after each step, in call order, whether the next turn is the last; it knows results, no limits of a policy.
Begin with `judge.py`; classes of errors are a table in `error_classes.py`.
"""

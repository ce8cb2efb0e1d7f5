"""Stop a planner that makes no progress (ME-1 to ME-15).

It makes none if an error comes back three times, or if it loops. Begin with `judge.py`.
"""

"""Stop a planner that makes no progress (ME-1 to ME-15).

It makes none if an error comes back three times, or if it loops. After each step, in call order, the
package decides whether the next turn is the last. It may import `values`, but not the limits of a
policy. Begin with `judge.py`. Classes of errors are a table in `error_classes.py`.
"""

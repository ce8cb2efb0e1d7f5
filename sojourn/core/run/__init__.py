"""The rules of one run, from its input to its outcome.

The package decides what a plan may do, what follows a step, and the result of a call that ended outside its
tool. Begin with `state.py`, then `run_input.py`, `plan_rules.py` and `limits.py`.
"""

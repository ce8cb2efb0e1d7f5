"""The rules of one run, from its input to its outcome.

They cover the state, plans, admission, limits and retries.

The package decides what a plan may do, what follows a step, and the result of a call that ended outside its
tool. It may import `awaits` and the packages below it. Begin with `state.py`, which holds the run state,
then `run_input.py`, `plan_rules.py` and `limits.py`.
"""

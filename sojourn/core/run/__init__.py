"""One run: its opening, its state, its plans and their admission, its limits, retries and outcomes.

It decides what a plan may do, what follows a step, and how a call that ended outside its tool is answered; it knows
everything below it, no history. Begin with `state.py`, which holds all that a run keeps, then `opening.py`, `admission.py` and `limits.py`.
"""

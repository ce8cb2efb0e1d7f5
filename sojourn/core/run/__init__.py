"""One run: its opening, its plans and their admission, its limits, retries and outcomes.

It decides what a plan may do and how a call that ended outside its tool is answered; it knows everything below it, no
history. Begin with `opening.py`, `plan_shape.py` and `admission.py`, then `limits.py`.
"""

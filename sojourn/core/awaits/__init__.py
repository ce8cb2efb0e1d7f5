"""What a run waits for from outside: questions, approvals, results of others, an operator's resume.

It decides which wait is open, whether what was sent answers it, and what people see of it; it knows payloads, no plan.
Begin with `waits.py` (what is open) and `kinds.py`, the table of kinds, each of which has a file of its own.
"""

"""What a run waits for from outside: answers to questions, approvals, external results, an operator's resume.

It decides which waits are open, whether a message from outside answers one, and what people see of it; it may
import payloads, not plans. Begin with `waits.py` (the open waits) and `kinds.py`, the table of kinds, each of
which has its own file.
"""

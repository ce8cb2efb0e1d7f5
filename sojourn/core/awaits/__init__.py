"""The waits of a run, and how messages from outside answer them.

A run waits for answers to questions, approvals, external results, and an operator's resume. The package
decides which waits are open, whether a message from outside answers one, and how a wait is shown. It may
import `payload` and the packages below it. Begin with `waits.py` (the open waits) and `kinds.py`, the table
of kinds, each with its own file.
"""

"""The decisions, as pure functions over frozen values: no clock, randomness or I/O, no Temporal.

Packages from the bottom: `values`, `schema`, `payload`, `safeguards`, `awaits`, `repair`, `run`, `history`;
each may import the packages before it, and contracts. Workflow code may call all of it, so that a change here
replays stored histories.
"""

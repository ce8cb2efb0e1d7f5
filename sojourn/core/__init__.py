"""The decisions, as pure functions over frozen values: no clock, randomness or I/O, no Temporal.

Packages from the bottom: `values`; `schema` and `safeguards`; `payload`; `awaits`; `repair` and `run`;
`history`. Each may import the packages below it, and contracts; workflow code may call all of it, so that a
change here replays stored histories.
"""

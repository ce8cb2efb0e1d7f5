"""All decisions, as pure functions over frozen values.

There is no clock, randomness, I/O or Temporal in them.

Packages from the bottom: `values`; `schema` and `safeguards`; `payload`; `awaits`; `repair` and `run`;
`history`. Each may import the packages below it, and contracts; workflow code may call all of it, so that a
change here replays stored histories.
"""

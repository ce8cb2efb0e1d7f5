"""All decisions, as pure functions over frozen values.

No clock, randomness, I/O or Temporal: workflow code may call all of it, so a change here replays stored
histories.
"""

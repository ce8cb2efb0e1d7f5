"""Rebuild a run's events, status and transcript from its history.

No worker needs to be alive. The package decides nothing: it applies the run's own transitions to the recorded
events. Begin with `fold.py`. `fold_step.py` follows calls, `fold_waits.py` messages from outside.
"""

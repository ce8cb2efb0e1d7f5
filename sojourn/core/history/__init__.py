"""Rebuild a run's events, status and transcript from its history.

No worker needs to be alive, and the run may have ended long ago.

The package decides nothing: it applies the run's own transitions to the recorded events, and may import
all of the core. Begin with `fold.py`. `fold_step.py` follows calls, `fold_waits.py` messages from
outside, and `transcript.py` rebuilds the transcript.
"""

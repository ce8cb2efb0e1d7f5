"""A run read from its history: events, status and transcript, with no worker alive and long after the run's end.

The package decides nothing: it applies the run's own transitions to the recorded events, and may import all
of the core. Begin with `fold.py`; `fold_step.py` follows calls, `fold_waits.py` messages from outside, and
`transcript.py` rebuilds the transcript.
"""

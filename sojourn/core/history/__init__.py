"""A run told by its history: events, status and transcript, with no worker alive and long after its end.

It decides nothing that the run did not decide: it applies the run's own transitions to what is recorded, and knows all of
the core. Begin with `fold.py`; `fold_step.py` follows calls, `fold_waits.py` what was sent, and `transcript.py` reads what
was said.
"""

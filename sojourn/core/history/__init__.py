"""A run told by its history: events, status and transcript, with no worker alive and long after its end.

It decides nothing that the run did not decide: it repeats the run's own functions over what is recorded.
Begin with `fold.py`; `status.py` and `transcript.py` read the events that it makes.
"""

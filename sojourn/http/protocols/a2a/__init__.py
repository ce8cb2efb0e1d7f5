"""A2A: an agent for other agents, by `fasta2a`, whose storage, broker and event bus are the histories of runs.

Begin at `endpoint.py`; `tasks.py` makes a task of a reply, `storage.py` and `broker.py` are what the library asks.
"""

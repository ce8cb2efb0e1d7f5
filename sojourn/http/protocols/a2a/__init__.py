"""Serve an agent to other agents over A2A, with the library `fasta2a`.

The library's storage, broker and event bus are implemented on the histories of runs.

Begin at `endpoint.py`. `tasks.py` renders a reply as a task, and `storage.py` and `broker.py` implement
the library's interfaces.
"""

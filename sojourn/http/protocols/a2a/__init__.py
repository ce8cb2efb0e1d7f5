"""Serve an agent to other agents over A2A, with the library `fasta2a`.

The library's storage, broker and event bus are implemented on the histories of runs.

Begin at `endpoint.py`. `tasks.py` and `broker.py` implement the library's interfaces.
"""

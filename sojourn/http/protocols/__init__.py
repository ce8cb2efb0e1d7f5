"""The protocols of others: what their clients send and expect, told by the events of a run and nothing else.

A protocol holds no state: its ids are places in the histories of runs (`place.py`), and its answers are read from there
(`reading.py`), at any process. It may import the service, and no other protocol. Begin at `place.py` and `reading.py`, then the folder of a protocol.
"""

"""The protocols of others: what their clients send and expect, told by the events of a run and nothing else.

A protocol holds no state: its ids are places in the histories of runs (`place.py`), and its answers are read from there
(`reading.py`), at any process. It may import everything of `sojourn.http` but the application, and of the model layer only events and
encoders, never an agent. Begin at `place.py` and `reading.py`, then the folder of a protocol; for AG-UI and the AI SDK at `agui.py` or
`vercel.py`, then `turn.py` and `native.py`.
"""

"""Protocols: what user interfaces already speak, each answered with the turn of a conversation.

A protocol decides how a request of its own becomes a message or an answer, and how native events of the model layer become its stream; it
may import everything of `sojourn.http` but the application, and of the model layer only events and encoders, never an agent. Begin at
`agui.py` or `vercel.py`, then `turn.py` and `native.py`.
"""

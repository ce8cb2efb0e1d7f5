"""Adapters for the protocols of other clients. Each reads its own body, and renders the events of a run.

An adapter has no state: its ids are `ReplyToken`s, and its replies are read from the histories of runs, at any process.

To add a protocol, read `message_parts.py` and then one of two families:

- A client sends a message and gets a reply (`openai`, `mcp`, `a2a`): `talking.py` delivers the message, `reply.py` is the reply.
- A user interface reads the events of a turn (`agui`, `vercel`): `turn_request.py` opens the turn, `turn_events.py` are its events.
"""

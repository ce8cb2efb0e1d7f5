"""Adapters for the protocols of other clients: each reads its own body, and renders what `timeline` and `answers` say.

An adapter has no state: its ids are `ReplyToken`s, and its replies are read from the histories of runs, at any process.
It decides nothing: `message_parts.py` makes a `Message` of what a client sends, and an answer goes to `sojourn.answers`.

To add a protocol, read five files: `message_parts.py`, `waits.py`, and of one family the two shared files and an example.

- A client sends a message and gets a reply: `messages.py` delivers it, `reply.py` is the reply, `openai/chat.py` renders it.
- A user interface reads a turn: `turn_request.py` opens it, `turn_events.py` are its events, `vercel/stream.py` renders them.
"""

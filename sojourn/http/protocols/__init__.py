"""Adapters for the protocols of other clients.

Each adapter reads its own request body, and renders what `timeline` and `answers` report.

An adapter has no state. Its ids are `ReplyToken`s, and it reads its replies from the histories of runs,
in any process. It decides nothing: `messages.py` makes a `Message` of what a client sends, and an answer
goes to `sojourn.answers`.

To add a protocol, read `waits.py`, and one family:

- A client sends a message and gets a reply: `messages.py` delivers it, `reply.py` is the reply, `openai/chat.py` renders it.
- A user interface reads a turn: `turn_request.py` opens it, `turn_events.py` are its events, `vercel/stream.py` renders them.
"""

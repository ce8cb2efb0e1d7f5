"""The HTTP service: an ASGI application over the client, and the locks on it.

The package decides what a request may do and how it is answered; it knows the client, the events and the catalogue, and nothing of
workflows. Begin with `locks`, for who asks, and with `problems.py`, for what is answered when something is refused.
"""

"""AG-UI: a thread is a conversation.

A run of the client is what the client reads of one turn.
"""

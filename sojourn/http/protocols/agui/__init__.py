"""The AG-UI protocol, in which a thread is a conversation.

A run of the client is its reading of one turn.
"""

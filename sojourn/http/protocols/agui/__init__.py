"""AG-UI: a thread is a conversation, and a run of the client is what it reads of a turn."""

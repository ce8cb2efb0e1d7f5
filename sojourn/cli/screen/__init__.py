"""What several commands draw: text that is safe to print, lines of an event, the tree of a run, the prompt.

The package decides how an event or an await looks, and asks neither a server nor a client. Begin with `lines`.
"""

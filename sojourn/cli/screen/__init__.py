"""Screen: text that is safe to print, the lines of an event, the tree of a run, the prompt.

The package decides how events and waits are printed, and uses neither a server nor a client. Begin with `lines`.
"""

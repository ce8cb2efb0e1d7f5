"""Format events, waits, prompts and the trees of runs for a terminal.

Text from outside is made safe to print. The package decides how events and waits are printed, and
uses neither a server nor a client. Begin with `lines`.
"""

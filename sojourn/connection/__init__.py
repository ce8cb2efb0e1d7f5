"""How a process reaches the Temporal server: its settings, the connection, and what each fault of the way means.

It decides which settings count, and turns TLS and RPC errors into Sojourn's own; workers, clients and commands use it,
it knows none of them. Begin with `connect.py`.
"""

"""How a process reaches the Temporal server: its settings, the connection, and the error for each failure on the way.

The package decides which settings apply, and turns TLS and RPC errors into Sojourn's errors; it imports none
of its users: workers, clients and commands. Begin with `connect.py`.
"""

"""How a process reaches the Temporal server: its settings, the connection, and the error for each failure on the way.

It decides which settings apply, and turns TLS and RPC errors into Sojourn's errors; workers, clients and
commands use it, and it imports none of them. Begin with `connect.py`.
"""

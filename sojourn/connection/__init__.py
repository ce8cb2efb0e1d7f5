"""How a process connects to the Temporal server.

The package decides which settings apply, makes the connection, and turns TLS and RPC errors into
Sojourn's errors. It imports none of its users: workers, clients and commands. Begin with
`connect.py`.
"""

"""What programs outside a run use: start runs, follow them, answer their questions, end them.

The package decides how a caller reaches the server and which error a failed RPC becomes; it may import the
events and the Temporal SDK's client, no planner and no tool. Begin with `client.py` and `run.py`;
`sojourn.connection` makes the connection.
"""

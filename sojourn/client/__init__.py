"""What programs outside a run use: start runs, follow them, answer their questions, end them.

It decides how a caller reaches the server and what each failure of an RPC means to that caller; it knows the
events and the Temporal SDK's client, no planner and no tool. Begin with `client.py` and `run.py`; a connection is made in `sojourn.connection`.
"""

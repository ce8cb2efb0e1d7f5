"""MCP: agents as tools of a server over streamable HTTP, with tasks, and their artifacts as resources.

The server keeps no session: each request is one of its own, at any process. Begin at `door.py` and `server.py`; `tasks.py` has the extension of
tasks, `inputs.py` what is asked.
"""

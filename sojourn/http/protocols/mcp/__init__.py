"""MCP: agents as tools of a server over streamable HTTP, with tasks, and their artifacts as resources.

The server keeps no session: each request is one of its own, at any process. Begin at `endpoint.py` and `server.py`; `tasks.py` has the extension of
tasks, `content.py` what is asked.
"""

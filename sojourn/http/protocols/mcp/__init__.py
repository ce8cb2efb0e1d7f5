"""Serve agents as tools over MCP (streamable HTTP).

It has tasks, and the agents' artifacts are resources. The server keeps no session: each request stands
alone, in any process. Begin at `endpoint.py` and `server.py`. `tasks.py` has the tasks extension,
`content.py` the elicitations.
"""

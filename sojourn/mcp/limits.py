"""Limits on what an MCP server may send: it is not trusted, and one of many servers of a worker."""

from datetime import timedelta

__all__ = [
    "CONNECT_TIMEOUT",
    "LIST_TIMEOUT",
    "MAX_DESCRIPTION",
    "MAX_INLINE_TEXT",
    "MAX_INPUT_REQUESTS",
    "MAX_INPUT_ROUNDS",
    "MAX_INSTRUCTIONS",
    "MAX_MESSAGE_BYTES",
    "MAX_PAGES",
    "MAX_SCHEMA_BYTES",
    "MAX_SESSIONS",
    "MAX_TEXT_BESIDE",
    "MAX_TOOLS",
    "READ_RESOURCE",
    "SESSION_IDLE",
    "TTL",
]

MAX_MESSAGE_BYTES = 8_000_000
"""Bytes of one message on the wire: room for a result of 1 MB sent twice (structured and as text), or for an image."""

MAX_PAGES = 50
"""Pages of one listing."""

MAX_TOOLS = 1_000
"""Tools of one server."""

MAX_SCHEMA_BYTES = 100_000
"""Bytes of one schema of a tool, as JSON."""

MAX_DESCRIPTION = 4_000
"""Characters of a tool's description."""

MAX_INLINE_TEXT = 20_000
"""Characters of a resource's text that a result carries; a longer one is an artifact."""

MAX_INSTRUCTIONS = 2_000
"""Characters of a server's instructions that models read."""

READ_RESOURCE = "\0resources/read"
"""Stands for the request that reads a resource, in place of the name of a tool: no tool has a name with NUL."""

MAX_TEXT_BESIDE = 100_000
"""Characters of the texts beside structured content that a result carries; longer ones are an artifact too."""

MAX_INPUT_REQUESTS = 20
"""Input requests in one answer, forms and others."""

MAX_INPUT_ROUNDS = 10
"""Requests in one execution of a call whose answers all ask for input that needs no person; as many as in the SDKs."""

CONNECT_TIMEOUT = timedelta(seconds=30)
"""Default time limit for starting or reaching a server and negotiating the protocol version."""

LIST_TIMEOUT = timedelta(seconds=60)
"""Time limit for all pages of one listing."""

TTL = timedelta(minutes=5)
"""Default maximum age of a list of tools."""

MAX_SESSIONS = 32
"""Default number of sessions of tenants or principals at once with one server."""

SESSION_IDLE = timedelta(minutes=10)
"""Default time after which a session of a tenant or principal without calls ends."""

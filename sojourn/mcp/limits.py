"""How much an MCP server may say: it is a stranger, and one of many that a worker talks to."""

from datetime import timedelta

__all__ = [
    "CONNECT_TIMEOUT",
    "LIST_TIMEOUT",
    "MAX_DESCRIPTION",
    "MAX_FORM_BYTES",
    "MAX_FORM_FIELDS",
    "MAX_INLINE_TEXT",
    "MAX_INPUT_REQUESTS",
    "MAX_INPUT_ROUNDS",
    "MAX_MESSAGE_BYTES",
    "MAX_PAGES",
    "MAX_SCHEMA_BYTES",
    "MAX_TOOLS",
    "TTL",
]

MAX_MESSAGE_BYTES = 8_000_000
"""One message on the wire: a result of 1 MB twice over (structured and as text), or a picture."""

MAX_PAGES = 50
"""Pages of one listing."""

MAX_TOOLS = 1_000
"""Tools of one server."""

MAX_SCHEMA_BYTES = 100_000
"""One tool's schema."""

MAX_DESCRIPTION = 4_000
"""Characters of a tool's description."""

MAX_INLINE_TEXT = 20_000
"""Characters of a resource's text that a result carries; a longer one is an artifact."""

MAX_FORM_FIELDS = 50
"""Fields of one form that a person is to fill."""

MAX_FORM_BYTES = 20_000
"""One form."""

MAX_INPUT_REQUESTS = 20
"""What one answer may ask for at once, forms and all else."""

MAX_INPUT_ROUNDS = 10
"""Answers of one call in a row that ask for nothing a person could give; the SDKs go as far."""

CONNECT_TIMEOUT = timedelta(seconds=30)
"""For starting or reaching a server and agreeing on a protocol version."""

LIST_TIMEOUT = timedelta(seconds=60)
"""For all pages of one listing."""

TTL = timedelta(minutes=5)
"""How old a list of tools may grow without a word from the server."""

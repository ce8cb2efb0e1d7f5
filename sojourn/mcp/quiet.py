"""The logs of the SDK and of httpx, kept from telling what a server sent or where it is.

They write addresses with their query at level INFO, and whole messages of a server, escape
sequences included, in tracebacks. What matters of that is said by this package, in its own words.
"""

import logging

from sojourn.mcp.exchange import EXCHANGE

__all__ = ["quiet"]

_LOGGERS = (
    "client",
    "httpx2",
    "mcp.client.client",
    "mcp.client.session",
    "mcp.client.sse",
    "mcp.client.streamable_http",
    "mcp.shared.jsonrpc_dispatcher",
)


class _OutsideAlone(logging.Filter):
    """Passes what is not said in the course of an exchange of ours: other users of the SDK keep their logs."""

    def filter(self, record: logging.LogRecord) -> bool:
        del record
        return EXCHANGE.get() is None


_FILTER = _OutsideAlone()


def quiet() -> None:
    """Keep those logs from telling; harmless to call again."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_FILTER)

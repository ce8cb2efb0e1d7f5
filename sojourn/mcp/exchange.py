"""Exchange: what a transport saw of one request, beside the answer that the SDK gives.

The SDK folds a refused connection, HTTP 429 and an answer of 10 MB into one kind of error.
What was seen below it is noted here, in the context of the request, which the SDK carries
along to the transport.
"""

from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta

__all__ = ["EXCHANGE", "OVERSIZED", "Exchange"]

OVERSIZED = -32_091
"""JSON-RPC error code with which a transport of ours stands in for an answer that is too large."""


@dataclass(slots=True)
class Exchange:
    """One request; or the opening of a session, whose requests share one."""

    status: int | None = None
    """HTTP status of the answer."""
    is_json: bool = False
    """Whether the answer's body is JSON."""
    in_session: bool = False
    """Whether the request named a session that the server had given us."""
    retry_after: timedelta | None = None
    """What the server asked us to wait."""
    received: int = 0
    """Bytes of the answer's body."""
    oversize: int | None = None
    """Bytes of an answer that was too large."""
    fault: str | None = None
    """Why nothing, or only half an answer, came: a clause."""


EXCHANGE: ContextVar[Exchange | None] = ContextVar("sojourn_mcp_exchange", default=None)
"""The request going on."""

"""The one place where the SDK's errors, and what the transport saw, become ours.

Imported lazily, since it loads the SDK.
"""

from collections.abc import Sequence
from typing import cast

from mcp import MCPError
from mcp_types import CONNECTION_CLOSED, HEADER_MISMATCH, PARSE_ERROR
from pydantic import ValidationError

from sojourn.core.values.text import plain
from sojourn.errors import RateLimited, SojournError, ToolUnavailable
from sojourn.mcp.exchange import OVERSIZED, Exchange
from sojourn.mcp.faults import Answered, Garbled, Oversized, SessionRefused, Unusable
from sojourn.mcp.limits import MAX_MESSAGE_BYTES
from sojourn.mcp.text import masked

__all__ = ["translated"]

_MAX_TEXT = 500
_BUSY = (408, 425)


def translated(error: Exception, exchange: Exchange, secrets: Sequence[str]) -> SojournError:
    """The error of ours that a failed request comes to; its text holds nothing that we sent in confidence."""
    if isinstance(error, ExceptionGroup):
        group = cast("ExceptionGroup[Exception]", error)
        return translated(group.exceptions[0], exchange, secrets)
    seen = _seen(exchange)
    if seen is not None:
        return seen
    match error:
        case SojournError():
            return error
        case MCPError():
            return _told(error, exchange, secrets)
        case ValidationError():
            return Garbled(_first(error))
        case _:
            return ToolUnavailable(f"its MCP server cannot be used: {_reason(error)}")


def _told(error: MCPError, exchange: Exchange, secrets: Sequence[str]) -> SojournError:
    """An error of the protocol's."""
    match error.code:
        case code if code == OVERSIZED:
            # Whoever wrote the size: a transport of ours, or a server that may call its answers too large.
            size = error.data if isinstance(error.data, int) else 0
            return Oversized(max(size, MAX_MESSAGE_BYTES))
        case code if code == CONNECTION_CLOSED and _is_ours(error, exchange):
            if exchange.received > MAX_MESSAGE_BYTES:
                return Oversized(exchange.received)
            return ToolUnavailable("the connection to its MCP server broke off")
        case code if code == HEADER_MISMATCH:
            # Sent as the old listing says; the toolset lists again, and then a repetition fits.
            return ToolUnavailable("its MCP server has changed the tool since it was listed")
        case code if code == PARSE_ERROR and exchange.status is not None:
            return Garbled("its MCP server answered with no message of the protocol")
        case code:
            return Answered(plain(masked(error.message, secrets), _MAX_TEXT), code)


def _is_ours(error: MCPError, exchange: Exchange) -> bool:
    """Whether the SDK says that the connection closed; servers use the same code for errors of their own."""
    answered_elsewhere = exchange.status in (None, 202)
    return error.message == "Connection closed" or not (answered_elsewhere or exchange.is_json)


def _seen(exchange: Exchange) -> SojournError | None:
    """What the transport knows better than the error."""
    status = exchange.status or 0
    if exchange.oversize:
        return Oversized(exchange.oversize)
    if status == 429:
        return RateLimited("its MCP server is over a limit", retry_after=exchange.retry_after)
    if exchange.in_session and status in (400, 404):
        return SessionRefused("its MCP server has forgotten our session")
    if exchange.fault:
        return ToolUnavailable(f"its MCP server cannot be reached: {exchange.fault}")
    if status in (401, 403):
        return Unusable(f"its MCP server refuses our credentials (HTTP {status})")
    if status in _BUSY or status > 500 or (status == 500 and not exchange.is_json):
        return ToolUnavailable(f"its MCP server answers HTTP {status}", retry_after=exchange.retry_after)
    if status >= 300 and not exchange.is_json:
        return Unusable(f"its MCP server answers HTTP {status}")
    return None


def _reason(error: BaseException) -> str:
    """Why a session could not be opened, as a clause that holds no address and no argument."""
    match error:
        case TimeoutError():
            return "it does not answer in time"
        case FileNotFoundError():
            return "there is no such program"
        case OSError(strerror=str(text)):
            return plain(text, _MAX_TEXT).lower()
        case MCPError():
            return "it answers with an error"
        case RuntimeError():
            return "it speaks no version of the protocol that we know"
        case _:
            return type(error).__name__


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return plain(f"its MCP server's answer breaks the protocol at {place}: {first['msg']}", _MAX_TEXT)

"""What goes wrong between a worker and an MCP server, told apart by what may follow.

`ToolUnavailable` and `RateLimited` are worth a repetition; the errors here are not, or not as they are. `translate`
is the one place where the SDK's errors become ours: the SDK folds a refused connection, HTTP 429 and an answer of
10 MB into one kind of error, so a transport notes in an `Exchange` what it saw below.
"""
# ruff: noqa: N818 - an error is named for what happened

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, cast

from pydantic import ValidationError

from sojourn.contracts.retry_hint import RetryReason
from sojourn.core.values.text import plain
from sojourn.errors import RateLimited, SojournError, ToolUnavailable
from sojourn.mcp.limits import MAX_MESSAGE_BYTES
from sojourn.mcp.text import masked

if TYPE_CHECKING:
    from mcp import MCPError

__all__ = [
    "EXCHANGE",
    "INVALID_PARAMS",
    "METHOD_NOT_FOUND",
    "OVERSIZED",
    "ErrorResponse",
    "Exchange",
    "MalformedResponse",
    "OversizedResponse",
    "ServerUnusable",
    "SessionRefused",
    "UnsupportedElicitation",
    "translate",
]

METHOD_NOT_FOUND = -32_601
"""JSON-RPC error code for a method that a server does not have; some answer an unknown tool with it."""

INVALID_PARAMS = -32_602
"""JSON-RPC error code for arguments that are refused, and for a request state that is."""

OVERSIZED = -32_091
"""JSON-RPC error code with which a transport of ours stands in for an answer that is too large."""

_MAX_TEXT = 500
_BUSY = (408, 425)


class SessionRefused(SojournError):
    """The server has forgotten the session, so it has not looked at the request."""


class ServerUnusable(SojournError):
    """The server refuses the worker, and would refuse a repetition."""


class ErrorResponse(SojournError):
    """The server answered with a JSON-RPC error of its own."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class UnsupportedElicitation(SojournError):
    """The server asks for what no person can be asked; the message is a clause about the server."""

    def __init__(self, message: str, code: str = RetryReason.MALFORMED_RESPONSE) -> None:
        super().__init__(message)
        self.code = code


class MalformedResponse(SojournError):
    """The answer is none that the protocol knows."""


class OversizedResponse(SojournError):
    """The answer is larger than one message may be."""

    def __init__(self, size: int) -> None:
        super().__init__(f"the answer of its MCP server has {size:,} bytes or more")
        self.size = size


@dataclass(slots=True)
class Exchange:
    """What a transport saw of one request; or of the opening of a session, whose requests share one."""

    status: int | None = None
    """HTTP status of the answer."""
    is_json: bool = False
    """Whether the answer's body is JSON."""
    in_session: bool = False
    """Whether the request named a session that the server had given out."""
    retry_after: timedelta | None = None
    """How long the server asked to wait."""
    received: int = 0
    """Bytes of the answer's body."""
    oversize: int | None = None
    """Bytes of an answer that was too large."""
    fault: str | None = None
    """Why nothing, or only half an answer, came: a clause."""


EXCHANGE: ContextVar[Exchange | None] = ContextVar("sojourn_mcp_exchange", default=None)
"""The request going on; the SDK carries the context of a request along to the transport."""


def translate(error: Exception, exchange: Exchange, secrets: Sequence[str]) -> SojournError:
    """Translate the error of a failed request; the text holds nothing that was sent in confidence.

    Args:
        error: What the SDK raised.
        exchange: What the transport saw of the request.
        secrets: Values that the server was given in confidence.
    """
    from mcp import MCPError  # noqa: PLC0415 - loads the SDK, which has raised by now

    if isinstance(error, ExceptionGroup):
        group = cast("ExceptionGroup[Exception]", error)
        return translate(group.exceptions[0], exchange, secrets)
    seen = _error_of_exchange(exchange)
    if seen is not None:
        return seen
    match error:
        case SojournError():
            return error
        case MCPError():
            return _error_of_protocol(error, exchange, secrets)
        case ValidationError():
            return MalformedResponse(_first_issue(error))
        case _:
            return ToolUnavailable(f"its MCP server cannot be used: {_reason(error)}")


def _error_of_exchange(exchange: Exchange) -> SojournError | None:
    """What the transport knows better than the SDK's error."""
    status = exchange.status or 0
    if exchange.oversize:
        return OversizedResponse(exchange.oversize)
    if status == 429:
        return RateLimited("its MCP server is over a limit", retry_after=exchange.retry_after)
    if exchange.in_session and status in (400, 404):
        return SessionRefused("its MCP server has forgotten our session")
    if exchange.fault:
        return ToolUnavailable(f"its MCP server cannot be reached: {exchange.fault}")
    if status in (401, 403):
        return ServerUnusable(f"its MCP server refuses our credentials (HTTP {status})")
    if status in _BUSY or status > 500 or (status == 500 and not exchange.is_json):
        return ToolUnavailable(f"its MCP server answers HTTP {status}", retry_after=exchange.retry_after)
    if status >= 300 and not exchange.is_json:
        return ServerUnusable(f"its MCP server answers HTTP {status}")
    return None


def _error_of_protocol(error: "MCPError", exchange: Exchange, secrets: Sequence[str]) -> SojournError:
    from mcp_types import CONNECTION_CLOSED, HEADER_MISMATCH, PARSE_ERROR  # noqa: PLC0415 - loads the SDK

    match error.code:
        case code if code == OVERSIZED:
            # Whoever wrote the size: a transport of ours, or a server that may call its answers too large.
            size = error.data if isinstance(error.data, int) else 0
            return OversizedResponse(max(size, MAX_MESSAGE_BYTES))
        case code if code == CONNECTION_CLOSED and _is_of_the_sdk(error, exchange):
            if exchange.received > MAX_MESSAGE_BYTES:
                return OversizedResponse(exchange.received)
            return ToolUnavailable("the connection to its MCP server broke off")
        case code if code == HEADER_MISMATCH:
            # Sent as the old listing says; the toolset lists again, and then a repetition fits.
            return ToolUnavailable("its MCP server has changed the tool since it was listed")
        case code if code == PARSE_ERROR and exchange.status is not None:
            return MalformedResponse("its MCP server sent a message that is not MCP")
        case code:
            return ErrorResponse(plain(masked(error.message, secrets), _MAX_TEXT), code)


def _is_of_the_sdk(error: "MCPError", exchange: Exchange) -> bool:
    """Whether the SDK says that the connection closed; servers use the same code for errors of their own."""
    answered_elsewhere = exchange.status in (None, 202)
    return error.message == "Connection closed" or not (answered_elsewhere or exchange.is_json)


def _reason(error: BaseException) -> str:
    """Why a session could not be opened, as a clause that holds no address and no argument."""
    from mcp import MCPError  # noqa: PLC0415 - loads the SDK

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


def _first_issue(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return plain(f"its MCP server's answer breaks the protocol at {place}: {first['msg']}", _MAX_TEXT)

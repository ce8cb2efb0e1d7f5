"""Errors of MCP servers and their transports, and what follows from each.

Temporal may repeat a call after `ToolUnavailable` and `RateLimited`, and `Connection.send` repeats it once
after `SessionRefused`; the other errors here are answered. The SDK reports a refused connection, HTTP 429
and an answer of 10 MB by the same error, so a transport records in an `Exchange` what it saw of the
request.
"""
# ruff: noqa: N818 - an error is named for what happened

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, cast

from pydantic import ValidationError

from sojourn.contracts.tool_error import RetryReason
from sojourn.errors import RateLimited, SojournError, ToolUnavailable
from sojourn.mcp.caller import Caller
from sojourn.mcp.limits import MAX_MESSAGE_BYTES, mask_secrets
from sojourn.network.network_errors import is_undecided
from sojourn.values.text import plain

if TYPE_CHECKING:
    from mcp import MCPError

__all__ = [
    "EXCHANGE",
    "INVALID_PARAMS",
    "MALFORMED",
    "METHOD_NOT_FOUND",
    "OVERSIZED",
    "UNAUTHORIZED",
    "ErrorResponse",
    "Exchange",
    "MalformedResponse",
    "OversizedResponse",
    "ServerUnusable",
    "SessionRefused",
    "SignInRequired",
    "UnsupportedElicitation",
    "translate",
]

METHOD_NOT_FOUND = -32_601
"""Some servers send it for an unknown tool."""

INVALID_PARAMS = -32_602
"""For refused arguments, and for a refused `requestState`."""

OVERSIZED = -32_091
"""Code of the error that `lenient_messages` puts in place of an answer that is too large."""

MALFORMED = -32_092
"""Code of the error that `lenient_messages` puts in place of an answer that cannot be read."""

UNAUTHORIZED = 401

_NOT_EXECUTED = (-32_700, -32_600, METHOD_NOT_FOUND, INVALID_PARAMS)
"""JSON-RPC error codes of a request that the server could not read, does not know or refuses."""

_MAX_TEXT = 500
_BUSY = (408, 425)


class SessionRefused(SojournError):
    """The server no longer knows the session, and did not execute the request."""


class ServerUnusable(SojournError):
    """The request cannot be made, such as with refused credentials."""


class SignInRequired(SojournError):
    """The principal of the call has to sign in at the server, which said this."""

    def __init__(self, scopes: Sequence[str] = (), resource_metadata: str | None = None) -> None:
        super().__init__("its MCP server wants the person for whom the call acts to sign in")
        self.scopes = tuple(scopes)
        self.resource_metadata = resource_metadata


class ErrorResponse(SojournError):
    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code

    @property
    def leaves_unknown(self) -> bool:
        return self.code not in _NOT_EXECUTED and "unknown tool" not in str(self).lower()


class UnsupportedElicitation(SojournError):
    """The server asks for input that the client cannot give, says this clause."""

    def __init__(self, message: str, code: str = RetryReason.MALFORMED_RESPONSE) -> None:
        super().__init__(message)
        self.code = code


class MalformedResponse(SojournError):
    """The answer breaks the protocol."""


class OversizedResponse(SojournError):
    def __init__(self, size: int) -> None:
        super().__init__(f"the answer of its MCP server has {size:,} bytes or more")
        self.size = size


@dataclass(slots=True)
class Exchange:
    """A transport's record of one request, or of those that open a session."""

    status: int | None = None
    is_json: bool = False
    is_stream: bool = False
    in_session: bool = False
    is_about_request: bool = False
    """Whether the server has read the request: a JSON-RPC error has its id, and does not name the session."""
    retry_after: timedelta | None = None
    oversize: int | None = None
    """Bytes received of a message that was too large, before it was cut off."""
    fault: str | None = None
    was_refused: bool = False
    caller: Caller | None = None
    """For whom the request acts; None for the session's own."""
    uses_own_credentials: bool = False
    """Whether its credentials are the caller's, so that a refusal says nothing of the session."""
    error: SojournError | None = None
    """Why the request was not sent."""

    @property
    def has_message(self) -> bool:
        return self.is_json or self.is_stream

    @property
    def leaves_session_in_doubt(self) -> bool:
        """Whether the session may be gone, or only this request refused.

        The protocol's status for a session that is gone is 404, but many servers send 400, also for
        requests that they cannot read. A 404 about the request itself may come from a server that maps
        errors to statuses.
        """
        return self.in_session and (self.status == 400 or (self.status == 404 and self.is_about_request))


EXCHANGE: ContextVar[Exchange | None] = ContextVar("sojourn_mcp_exchange", default=None)
"""The current request; the SDK passes the context of a request on to the transport."""


def translate(error: Exception, exchange: Exchange, secrets: Sequence[str]) -> SojournError:
    """Translate the error of a failed request. The transport's record comes first."""
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
            return MalformedResponse(_first_issue(error, secrets))
        case _:
            return ToolUnavailable(f"its MCP server cannot be used: {_reason(error)}")


def _error_of_exchange(exchange: Exchange) -> SojournError | None:
    status = exchange.status or 0
    if exchange.error is not None:
        return exchange.error
    if exchange.oversize:
        return OversizedResponse(exchange.oversize)
    if status == 429:
        return RateLimited("its MCP server is over a limit", retry_after=exchange.retry_after)
    if exchange.in_session and status == 404 and not exchange.is_about_request:
        return SessionRefused("its MCP server has forgotten the session")
    if exchange.fault:
        text = f"its MCP server cannot be reached: {exchange.fault}"
        return ToolUnavailable(text, outcome_unknown=not exchange.was_refused)
    if status in (UNAUTHORIZED, 403):
        return ServerUnusable(f"its MCP server refuses the credentials (HTTP {status})")
    if status in _BUSY or status > 500 or (status == 500 and not exchange.is_json):
        return ToolUnavailable(
            f"its MCP server answers HTTP {status}",
            retry_after=exchange.retry_after,
            outcome_unknown=is_undecided(status),
        )
    if status >= 300 and not exchange.is_json:
        return ServerUnusable(f"its MCP server answers HTTP {status}")
    return None


def _error_of_protocol(error: "MCPError", exchange: Exchange, secrets: Sequence[str]) -> SojournError:
    from mcp_types import (  # noqa: PLC0415 - loads the SDK
        CONNECTION_CLOSED,
        HEADER_MISMATCH,
        INVALID_REQUEST,
        PARSE_ERROR,
    )

    match error.code:
        case code if code == OVERSIZED:
            # From `sojourn.mcp.lenient_messages`, or from a server that uses the same code with any data.
            size = error.data if isinstance(error.data, int) else 0
            return OversizedResponse(max(size, MAX_MESSAGE_BYTES))
        case code if code == CONNECTION_CLOSED and _is_of_the_sdk(error, exchange):
            return ToolUnavailable("the connection to its MCP server broke off", outcome_unknown=True)
        case code if code == HEADER_MISMATCH:
            # The call followed an old listing. `Connection.send` has the tools listed again, so a repetition can succeed.
            return ToolUnavailable("its MCP server has changed the tool since it was listed")
        case code if code == MALFORMED or (code == PARSE_ERROR and exchange.status is not None):
            return MalformedResponse("its MCP server sent a message that is not MCP")
        case code if code == INVALID_REQUEST and exchange.status is not None and not exchange.has_message:
            # From the SDK: HTTP 202 without an answer, or a page in place of one.
            return MalformedResponse("its MCP server did not answer by a message of MCP")
        case code:
            return ErrorResponse(plain(mask_secrets(error.message, secrets), _MAX_TEXT), code)


def _is_of_the_sdk(error: "MCPError", exchange: Exchange) -> bool:
    """Return whether a closed connection is the SDK's own report."""
    answered_elsewhere = exchange.status in (None, 202)
    return error.message == "Connection closed" or not (answered_elsewhere or exchange.is_json)


def _reason(error: BaseException) -> str:
    """Return why no session could be opened, without addresses and arguments."""
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
            return "it supports no known version of the protocol"
        case _:
            return type(error).__name__


def _first_issue(error: ValidationError, secrets: Sequence[str]) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    # The place has the server's own keys.
    text = mask_secrets(f"its MCP server's answer breaks the protocol at {place}: {first['msg']}", secrets)
    return plain(text, _MAX_TEXT)

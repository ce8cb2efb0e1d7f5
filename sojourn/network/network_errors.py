"""Network errors: which exceptions are failures of the network, and what a server asks by `Retry-After`.

Errors of `httpx2` and `httpx` are known by the names of their classes, those of SDKs by the response
or the cause they carry: so nothing has to be loaded, and a client that is not installed is no case.
"""

import errno
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final, Literal

__all__ = [
    "RETRIED_STATUSES",
    "NetworkFailure",
    "client_classes",
    "network_failure_of",
    "retry_after_of",
    "status_of",
]

RETRIED_STATUSES: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""HTTP statuses that a repetition may change."""

_CLIENTS = {"httpx", "httpx2"}

_MAX_LINKS = 8


@dataclass(frozen=True, slots=True)
class NetworkFailure:
    """A failure that a repetition may mend."""

    kind: Literal["timeout", "connection", "tls", "rate_limited", "status"]
    """The sort of failure; `status` is an answer of the server, other than 429."""
    description: str
    """The failure in words that hold nothing of the request."""
    status: int | None = None
    """HTTP status, where the server answered."""
    retry_after: timedelta | None = None
    """What the server asked us to wait."""


_BY_CLASS: Final[tuple[tuple[type[OSError], NetworkFailure], ...]] = (
    (ssl.SSLError, NetworkFailure("tls", "TLS failure")),
    (TimeoutError, NetworkFailure("timeout", "timed out")),
    (ConnectionRefusedError, NetworkFailure("connection", "connection refused")),
    (ConnectionResetError, NetworkFailure("connection", "connection reset by peer")),
    (BrokenPipeError, NetworkFailure("connection", "connection reset by peer")),
    (ConnectionError, NetworkFailure("connection", "connection failed")),
    (socket.gaierror, NetworkFailure("connection", "DNS lookup failed")),
)
"""Errors of the standard library, the first that fits; all of them are `OSError`s, as most of a program's are."""

_BY_NUMBER: Final = {
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: "connection reset by peer",
    errno.ENETDOWN: "network is unreachable",
    errno.ENETUNREACH: "network is unreachable",
    errno.EHOSTDOWN: "host is unreachable",
    errno.EHOSTUNREACH: "host is unreachable",
}
"""`OSError`s that have no class of their own, and those that other libraries derive theirs from."""


def network_failure_of(error: BaseException) -> NetworkFailure | None:
    """Return the network failure that an exception reports; None for every other exception, which is then raised as it is.

    So it is for bad JSON, for other statuses, and for whatever a program does wrong itself.
    """
    status = status_of(error)
    if status is not None:
        return _answered(status, error) if status in RETRIED_STATUSES else None
    if client_classes(error):
        return _carried(error)
    if "request" in vars(error) and error.__cause__ is not None:
        return network_failure_of(
            error.__cause__
        )  # as the SDKs of OpenAI and Anthropic wrap what their client raised
    return _raised(error)


def status_of(error: BaseException) -> int | None:
    """The HTTP status that an exception reports, of whichever library."""
    status: Any = getattr(vars(error).get("response"), "status_code", None)
    return status if isinstance(status, int) else None


def retry_after_of(value: str | None) -> timedelta | None:
    """The header's value, seconds or a date, as a time from now; None when there is none, or it is neither."""
    if value is None:
        return None
    if value.isdecimal():
        return timedelta(seconds=int(value[:9]))
    try:
        when = parsedate_to_datetime(value)
        aware = when if when.tzinfo else when.replace(tzinfo=UTC)
        return max(aware - datetime.now(UTC), timedelta(0))
    except (ValueError, OverflowError):
        return None


def _answered(status: int, error: BaseException) -> NetworkFailure:
    headers: Any = getattr(vars(error)["response"], "headers", None) or {}
    return NetworkFailure(
        kind="rate_limited" if status == HTTPStatus.TOO_MANY_REQUESTS else "status",
        description=f"HTTP {status} {HTTPStatus(status).phrase}",
        status=status,
        retry_after=retry_after_of(headers.get("retry-after")),
    )


def client_classes(error: BaseException) -> set[str]:
    """The names of those classes of an exception that an HTTP client defines; empty for every other exception."""
    classes = type(error).__mro__
    return {each.__name__ for each in classes if each.__module__.partition(".")[0] in _CLIENTS}


def _carried(error: BaseException) -> NetworkFailure | None:
    """Return the failure of the HTTP client's transport."""
    names = client_classes(error)
    if "TimeoutException" in names:
        return NetworkFailure("timeout", "timed out")
    if "NetworkError" in names:
        below = (_raised(link) for link in _below(error))
        return next((fault for fault in below if fault), NetworkFailure("connection", "connection failed"))
    if "RemoteProtocolError" in names and any(word in str(error) for word in ("disconnected", "closed")):
        return NetworkFailure("connection", "connection reset by peer")
    return None


def _raised(error: BaseException) -> NetworkFailure | None:
    """Return the failure of the standard library's network functions."""
    if not isinstance(error, OSError):
        return None
    for kind, fault in _BY_CLASS:
        if isinstance(error, kind):
            return fault
    return NetworkFailure("connection", _BY_NUMBER[error.errno]) if error.errno in _BY_NUMBER else None


def _below(error: BaseException) -> Iterator[BaseException]:
    """What led to a transport's error: its connection pool cuts causes off, and leaves the contexts."""
    link = error.__cause__ or error.__context__
    for _ in range(_MAX_LINKS):
        if link is None:
            return
        yield link
        yield from getattr(link, "exceptions", ())  # of a group: one for each address of a host
        link = link.__cause__ or link.__context__

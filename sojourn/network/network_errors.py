"""Recognize exceptions that are network failures, and describe one in a sentence.

Errors of `httpx2` and `httpx` are recognized by the names of their classes, errors of SDKs by their
response or cause; so neither client needs to be loaded. Histories keep these sentences, so they contain no
address.
"""

import errno
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final, Literal

from sojourn.contracts import safe_exceptions
from sojourn.errors import NetworkRetriesExhausted

__all__ = [
    "ENDED_EARLY",
    "RESET",
    "RETRIED_STATUSES",
    "NetworkFailure",
    "client_classes",
    "format_network_error",
    "format_network_failure",
    "is_undecided",
    "leaves_undecided",
    "network_failure_of",
    "retry_after_of",
    "status_of",
]

RETRIED_STATUSES: Final = frozenset({408, 425, 429, 500, 502, 503, 504})

_NOT_EXECUTED: Final = {
    501: "the server does not support the method (RFC 9110, 15.6.2)",
    503: "the server cannot handle the request now (RFC 9110, 15.6.4)",
    505: "the server refuses the version of HTTP (RFC 9110, 15.6.6)",
    511: "a proxy on the way wants credentials (RFC 6585, 6)",
    521: "the origin refused the connection (Cloudflare)",
    523: "the origin cannot be reached (Cloudflare)",
    525: "the TLS handshake with the origin failed (Cloudflare)",
    526: "the certificate of the origin is invalid (Cloudflare)",
    529: "the server is overloaded (Anthropic)",
}
"""Server errors that say that the request was not carried out, and why.

After any other one it may have been carried out: 500, a gateway's 502 and 504 (RFC 9110), a CDN's 520, 522 and 524, whose connection
to the origin was open or may have been, and undefined ones.
"""

_UNDECIDED_CLIENT_ERRORS: Final = {
    408: "the server waited too long for the request (RFC 9110, 15.5.9), and some proxies answer so when the server behind them is slow",
    409: "the request is a conflict (RFC 9110, 15.5.10), as with an earlier one under the same key that is still being carried out "
    "(draft-ietf-httpapi-idempotency-key-header)",
}
"""Client errors after which the request, or an earlier one under the same key, may have been carried out, and why. Every other one refuses it:
425 (RFC 8470) and 429 (RFC 6585) for now, the rest for good."""

_BEFORE_SENDING = {"ConnectError", "ConnectTimeout", "PoolTimeout"}
_CLIENTS = {"httpx", "httpx2"}

_MAX_LINKS = 8

RESET: Final = "connection reset by peer"

ENDED_EARLY: Final = "its answer ended before it was complete"
"""The description of a stream that closed in order, without its last event."""

_MAX_READ = 50


@dataclass(frozen=True, slots=True)
class NetworkFailure:
    kind: Literal["timeout", "connection", "tls", "rate_limited", "status"]
    """`status` is any status of `RETRIED_STATUSES` other than 429."""
    description: str
    """A few words that contain nothing of the request."""
    status: int | None = None
    retry_after: timedelta | None = None
    outcome_unknown: bool = False
    """Whether the server may have carried the request out: it was sent, and no answer says that it was not."""


_BY_CLASS: Final[tuple[tuple[type[OSError], NetworkFailure], ...]] = (
    (ssl.SSLCertVerificationError, NetworkFailure("tls", "TLS failure")),
    (ssl.SSLError, NetworkFailure("tls", "TLS failure", outcome_unknown=True)),
    (TimeoutError, NetworkFailure("timeout", "timed out", outcome_unknown=True)),
    (ConnectionRefusedError, NetworkFailure("connection", "connection refused")),
    (ConnectionResetError, NetworkFailure("connection", RESET, outcome_unknown=True)),
    (BrokenPipeError, NetworkFailure("connection", RESET, outcome_unknown=True)),
    (ConnectionError, NetworkFailure("connection", "connection failed", outcome_unknown=True)),
    (socket.gaierror, NetworkFailure("connection", "DNS lookup failed")),
)
"""Failures by exception class of the standard library; the first class that fits counts."""

_BY_NUMBER: Final = {
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: RESET,
    errno.ENETDOWN: "network is unreachable",
    errno.ENETUNREACH: "network is unreachable",
    errno.EHOSTDOWN: "host is unreachable",
    errno.EHOSTUNREACH: "host is unreachable",
}
"""Descriptions by `errno`, for errors without a class in `_BY_CLASS`."""


def network_failure_of(error: BaseException) -> NetworkFailure | None:
    """Return the network failure that an exception reports, or None."""
    status = status_of(error)
    if status is not None:
        return _failure_of_status(status, error) if status in RETRIED_STATUSES else None
    if client_classes(error):
        return _failure_in(error)
    if "request" in vars(error) and error.__cause__ is not None:
        # The SDKs of OpenAI and Anthropic wrap the error of their client like this.
        return network_failure_of(error.__cause__)
    return _failure_of_class(error)


def is_undecided(status: int) -> bool:
    """Return whether a request with this response status may have been carried out."""
    is_server_error = 500 <= status <= 599
    return status in _UNDECIDED_CLIENT_ERRORS or (is_server_error and status not in _NOT_EXECUTED)


def leaves_undecided(error: BaseException) -> bool:
    """Return whether an exception reports a request that may have been carried out.

    The exceptions that it was raised from, or that it contains, count too.
    """
    return any(
        fault is not None and fault.outcome_unknown
        for link in safe_exceptions.members(error, _MAX_READ)
        if safe_exceptions.is_a(link, Exception)
        for fault in [network_failure_of(link)]
    )


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status of the `response` of any library's exception, or None."""
    status: Any = getattr(vars(error).get("response"), "status_code", None)
    return status if isinstance(status, int) else None


def retry_after_of(value: str | None) -> timedelta | None:
    """Return `Retry-After`, in seconds or as a date, as a duration from now."""
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


def _failure_of_status(status: int, error: BaseException) -> NetworkFailure:
    headers: Any = getattr(vars(error)["response"], "headers", None) or {}
    return NetworkFailure(
        kind="rate_limited" if status == HTTPStatus.TOO_MANY_REQUESTS else "status",
        description=f"HTTP {status} {HTTPStatus(status).phrase}",
        status=status,
        retry_after=retry_after_of(headers.get("retry-after")),
        outcome_unknown=is_undecided(status),
    )


def client_classes(error: BaseException) -> set[str]:
    """Return the names of an exception's classes in `httpx` or `httpx2`."""
    classes = type(error).__mro__
    return {each.__name__ for each in classes if each.__module__.partition(".")[0] in _CLIENTS}


def _failure_in(error: BaseException) -> NetworkFailure | None:
    names = client_classes(error)
    unknown = not names & _BEFORE_SENDING
    if "TimeoutException" in names:
        return NetworkFailure("timeout", "timed out", outcome_unknown=unknown)
    if "NetworkError" in names:
        below = (_failure_of_class(link) for link in _causes(error))
        fault = next((fault for fault in below if fault), NetworkFailure("connection", "connection failed"))
        return replace(fault, outcome_unknown=unknown)
    if "RemoteProtocolError" in names and any(word in str(error) for word in ("disconnected", "closed")):
        return NetworkFailure("connection", RESET, outcome_unknown=True)
    return None


def _failure_of_class(error: BaseException) -> NetworkFailure | None:
    if not isinstance(error, OSError):
        return None
    for kind, fault in _BY_CLASS:
        if isinstance(error, kind):
            return fault
    if error.errno not in _BY_NUMBER:
        return None
    unknown = error.errno == errno.ECONNRESET
    return NetworkFailure("connection", _BY_NUMBER[error.errno], outcome_unknown=unknown)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield a transport's causes, or contexts: the pool raises `from None`."""
    link = error.__cause__ or error.__context__
    for _ in range(_MAX_LINKS):
        if link is None:
            return
        yield link
        yield from getattr(link, "exceptions", ())  # an exception group has one for each address of the host
        link = link.__cause__ or link.__context__


_SENTENCES: Final = {
    "timeout": "{who} request timed out; it may be slow or overloaded, so try again later.",
    "connection": "Unable to connect to {who} ({description}); check the network and the address.",
    "broke_off": "The connection to {who} broke off ({description}); try again later.",
    "tls": "SSL connection error with {who}; check the address, its certificate and this machine's clock.",
    "rate_limited": "{who} is over its rate limit ({description}); try again {later}.",
    "status": "{who} cannot answer now ({description}); try again {later}.",
}

_MAX_TEXT = 200


def format_network_error(error: BaseException, provider: str | None = None) -> str:
    """Return a sentence that says what happened, and what may help.

    Args:
        error: The exception of the request.
        provider: The name of the API in the sentence; `API` when left out.
    """
    who = provider or "API"
    if isinstance(error, NetworkRetriesExhausted):
        return str(error)
    if fault := network_failure_of(error):
        return format_network_failure(fault, provider)
    if status := status_of(error):
        return f"{who} refused the request (HTTP {status}{_phrase(status)})."
    return f"{who} request failed: {_harmless(error)}."


def format_network_failure(fault: NetworkFailure, provider: str | None = None) -> str:
    """Return the sentence for a network failure, as `format_network_error` does."""
    is_cut = fault.kind == "connection" and fault.description in (RESET, ENDED_EARLY)
    return _SENTENCES["broke_off" if is_cut else fault.kind].format(
        who=provider or "API", description=fault.description, later=_later(fault)
    )


def _later(fault: NetworkFailure) -> str:
    wait = fault.retry_after or timedelta(0)
    return f"in {wait.total_seconds():.0f} s" if wait >= timedelta(seconds=1) else "later"


def _phrase(status: int) -> str:
    try:
        return f" {HTTPStatus(status).phrase}"
    except ValueError:
        return ""


def _harmless(error: BaseException) -> str:
    """Return the first line of an error's text, without addresses.

    Of an HTTP client's error only the class is named: its text quotes parts of the request, such as a key.
    """
    if client_classes(error):
        return type(error).__name__
    line = next((line for line in str(error).splitlines() if line.strip()), "")
    text = " ".join("[address]" if _is_address(word) else word for word in line.split())
    return text[:_MAX_TEXT].rstrip(" .") or type(error).__name__


def _is_address(word: str) -> bool:
    """Return whether a word may be an address with a user, a password or a query."""
    return "://" in word or ("@" in word and ":" in word) or ("?" in word and "=" in word)

"""Wording: the sentence that describes a failed request, for people and planners (ME-13, ME-14).

Histories keep these sentences, so they contain no address, which may hold a user, a password or a key.
"""

from datetime import timedelta
from http import HTTPStatus
from typing import Final

from sojourn.errors import NetworkRetriesExhausted
from sojourn.network.network_errors import (
    ENDED_EARLY,
    RESET,
    NetworkFailure,
    client_classes,
    network_failure_of,
    status_of,
)

__all__ = ["format_network_error", "format_network_failure"]

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
    """Return a sentence that says what happened and, for a network failure, what may help.

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
    """Return the sentence for a network failure; `provider` as in `format_network_error`."""
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
    """Return the first line of an error's text, without addresses; the name of its class if the text is empty.

    Of an HTTP client's error only the class is named: its text quotes parts of the request, such as a key.
    """
    if client_classes(error):
        return type(error).__name__
    line = next((line for line in str(error).splitlines() if line.strip()), "")
    text = " ".join("[address]" if _is_address(word) else word for word in line.split())
    return text[:_MAX_TEXT].rstrip(" .") or type(error).__name__


def _is_address(word: str) -> bool:
    """Whether a word may be an address with a user, a password or a query; in doubt, True."""
    return "://" in word or ("@" in word and ":" in word) or ("?" in word and "=" in word)

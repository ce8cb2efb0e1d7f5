"""Marked payloads: what could not be opened, or came in clear text, as our converter is told of it.

A payload that cannot be opened is replaced by one that says so, so that reading goes on with the next; the
converter then decides, by who asks. Where a type is asked for, the payload was written by our own side: it is
an error, and a workflow task that meets it is tried again. Where none is, anybody may have sent it.
"""

from temporalio.api.common.v1 import Payload

__all__ = ["CodecFailedError", "UnreadableError", "clear", "is_clear", "reason_of", "unread"]

_ENCODING = b"sojourn/unread"
_REASON = "reason"
_CLEAR = "sojourn-clear-text"


class UnreadableError(ValueError):
    """A payload of our own side cannot be read here; the text says why."""


class CodecFailedError(UnreadableError):
    """What encrypts, or keeps payloads elsewhere, does not work now."""


def unread(reason: str) -> Payload:
    """In place of a payload that cannot be opened."""
    return Payload(metadata={"encoding": _ENCODING, _REASON: reason.encode(errors="replace")})


def reason_of(payload: Payload) -> str | None:
    """Why a payload could not be opened; None of any other."""
    if payload.metadata.get("encoding") != _ENCODING:
        return None
    return payload.metadata.get(_REASON, b"").decode(errors="replace")[:300] or "it cannot be read"


def clear(payload: Payload) -> Payload:
    """The same payload, known to have come in clear text."""
    marked = Payload()
    marked.CopyFrom(payload)
    marked.metadata[_CLEAR] = b"true"
    return marked


def is_clear(payload: Payload) -> bool:
    """Whether a payload came in clear text where only encrypted ones are taken."""
    return _CLEAR in payload.metadata

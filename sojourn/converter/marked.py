"""Marked payloads: those that could not be opened, or came in clear text, as the converter sees them.

A payload that cannot be opened is replaced by a marked one, so that decoding continues with the next; the
converter then decides by its caller. Where there is a type hint, Sojourn wrote the payload: it is an error,
and a workflow task that meets it is attempted again. Where there is none, anybody may have sent the payload.
"""

from temporalio.api.common.v1 import Payload

__all__ = ["CodecFailedError", "UnreadableError", "clear", "is_clear", "reason_of", "unread"]

_ENCODING = b"sojourn/unread"
_REASON = "reason"
_CLEAR = "sojourn-clear-text"


class UnreadableError(ValueError):
    """A payload that Sojourn wrote cannot be decoded here; the text says why."""


class CodecFailedError(UnreadableError):
    """The codec, or the external storage, does not work now."""


def unread(reason: str) -> Payload:
    """The marked payload in place of one that cannot be opened."""
    return Payload(metadata={"encoding": _ENCODING, _REASON: reason.encode(errors="replace")})


def reason_of(payload: Payload) -> str | None:
    """Why a payload could not be opened; None for any other payload."""
    if payload.metadata.get("encoding") != _ENCODING:
        return None
    return payload.metadata.get(_REASON, b"").decode(errors="replace")[:300] or "it cannot be read"


def clear(payload: Payload) -> Payload:
    """A copy of a payload, marked as clear text."""
    marked = Payload()
    marked.CopyFrom(payload)
    marked.metadata[_CLEAR] = b"true"
    return marked


def is_clear(payload: Payload) -> bool:
    """Whether a payload came in clear text where only encrypted ones are accepted."""
    return _CLEAR in payload.metadata

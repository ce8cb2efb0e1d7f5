"""Unread: a payload that a run does not accept, and why.

Anybody in the namespace may send payloads that this deployment cannot decode, or clear text where only
encrypted payloads are accepted. A run refuses such a payload, as it refuses any other invalid one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["CLEAR_TEXT", "OrUnread", "Unread", "unread_in"]

CLEAR_TEXT = "it is not encrypted, and this deployment takes encrypted messages only"
"""Why a message in clear text is refused."""


@dataclass(frozen=True, slots=True)
class Unread:
    """One payload that is not accepted."""

    reason: str
    """The reason, for the sender and operators; contains nothing of the payload."""
    is_clear: bool = False
    """Whether the payload could be decoded, but was in clear text."""
    value: Any = None
    """The decoded value, when it was in clear text."""


@dataclass(frozen=True, slots=True)
class OrUnread:
    """A type hint for decoding: the wanted type, or an `Unread` for a payload that is not accepted."""

    of: type
    """The wanted type."""

    def unread(self, reason: str) -> Unread:
        """An `Unread` with this reason."""
        return Unread(reason)


def unread_in(values: Sequence[Any]) -> Unread | None:
    """The first `Unread` among the values, or None."""
    return next((value for value in values if isinstance(value, Unread)), None)

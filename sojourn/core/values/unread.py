"""Unread: what came in a payload that is not taken as it came, and why.

Anybody in the namespace may send payloads that nobody here can open, or in clear text where only
encrypted ones are taken. A run that gets one refuses it, as it refuses any other garbage.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["CLEAR_TEXT", "OrUnread", "Unread", "unread_in"]

CLEAR_TEXT = "it is not encrypted, and this deployment takes encrypted messages only"
"""Why a message in clear text is refused."""


@dataclass(frozen=True, slots=True)
class Unread:
    """One value that is not taken."""

    reason: str
    """For whoever sent it, and for operators; nothing of the payload's is in it."""
    is_clear: bool = False
    """Whether it could be read, but came in clear text."""
    value: Any = None
    """What it says, when it is in clear text."""


@dataclass(frozen=True, slots=True)
class OrUnread:
    """In place of a type: what is asked for, or an `Unread` where something else came."""

    of: type
    """What is asked for."""

    def unread(self, reason: str) -> Unread:
        """That something else came."""
        return Unread(reason)


def unread_in(values: Sequence[Any]) -> Unread | None:
    """The first of these that is not taken."""
    return next((value for value in values if isinstance(value, Unread)), None)

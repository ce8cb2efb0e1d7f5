"""Place: where in the events of a run a reply begins, as the id that clients of a protocol know it by."""

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any

__all__ = ["Place", "place_of_token"]

MAX_TOKEN = 4_000
"""Longest token that is read, in characters."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a reply begins. What follows in the history is the reply, so that every process reads the same."""

    run_id: str
    """The run that is followed: of a conversation, or of one request."""
    after: str = ""
    """The cursor after which the events of the reply come."""
    message_id: str = ""
    """The message that the reply is to; empty where the reply begins at once: at a run's start, or after an answer."""

    @property
    def token(self) -> str:
        """The place as text of letters, digits, `-` and `_`; no secret, and no right to see the run."""
        told = json.dumps([self.run_id, self.after, self.message_id], separators=(",", ":"))
        return base64.urlsafe_b64encode(told.encode()).decode().rstrip("=")


def place_of_token(token: str) -> Place | None:
    """The place of a token; None where it is none of ours."""
    if len(token) > MAX_TOKEN:
        return None
    try:
        found: Any = json.loads(
            base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        )
        run_id, after, message_id = found
    except (ValueError, TypeError, binascii.Error, RecursionError):
        return None
    if not all(isinstance(each, str) for each in (run_id, after, message_id)) or not run_id:
        return None
    return Place(run_id, after, message_id)

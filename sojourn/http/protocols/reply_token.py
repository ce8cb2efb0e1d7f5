"""Opaque token for the start of a reply.

It has the run, the event after which the reply starts, and its message.
"""

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any

__all__ = ["ReplyToken"]

MAX_TOKEN = 4_000
"""Longest token to parse, in characters."""


@dataclass(frozen=True, slots=True)
class ReplyToken:
    """Start of a reply in the history of a run.

    The events after it are the reply, so every process reads the same reply.
    """

    run_id: str
    """Id of the run: of a conversation, or of one request."""
    after: str = ""
    """The cursor after which the events of the reply come."""
    message_id: str = ""
    """Id of the message that the reply answers.

    Empty if the reply starts at once: at a run's start, or after an answer.
    """

    @property
    def text(self) -> str:
        """The token as letters, digits, `-` and `_`.

        It is not a secret, and gives no right to see the run.
        """
        fields = json.dumps([self.run_id, self.after, self.message_id], separators=(",", ":"))
        return base64.urlsafe_b64encode(fields.encode()).decode().rstrip("=")

    @staticmethod
    def parse(text: str) -> "ReplyToken | None":
        if len(text) > MAX_TOKEN:
            return None
        try:
            found: Any = json.loads(
                base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            )
            run_id, after, message_id = found
        except (ValueError, TypeError, binascii.Error, RecursionError):
            return None
        if not all(isinstance(each, str) for each in (run_id, after, message_id)) or not run_id:
            return None
        return ReplyToken(run_id, after, message_id)

"""Opaque token for the start of a reply, and its mark in chat texts.

A token has the run, the event after which the reply starts, and its message. A mark in a text names its reply. Only this
service writes marks: one that a model, or a tool that it quotes, has written is removed before the text is sent. A mark
alone decides nothing: it counts in the chat that showed it (`last_reply` of `openai/chat.py`).
"""

import base64
import binascii
import json
import re
from dataclasses import dataclass
from typing import Any

__all__ = [
    "MAX_TOKEN",
    "OPENING",
    "REMOVED",
    "MarkFilter",
    "ReplyToken",
    "mark_of",
    "remove_marks",
    "remove_tokens",
]

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


OPENING = "[//]: # (sojourn:"
"""Prefix of a mark: a Markdown comment, which pages do not render."""

REMOVED = "…"
"""Replacement for a removed mark, so that the texts around it cannot form a new mark."""

_TOKEN = re.compile(r"[A-Za-z0-9_-]*")
_TOKENS = re.compile(r"[A-Za-z0-9_-]{16,}")


def mark_of(token: ReplyToken) -> str:
    """Return the mark to append to a reply that asks a question."""
    return f"\n\n{OPENING}{token.text})"


def remove_marks(text: str) -> str:
    """Return a model's whole text without marks."""
    filter = MarkFilter()
    return filter.take(text) + filter.end()


def remove_tokens(text: str) -> str:
    """Return a model's whole text without marks and task ids."""
    return _TOKENS.sub(lambda found: REMOVED if ReplyToken.parse(found[0]) else found[0], remove_marks(text))


class MarkFilter:
    """Removes marks from a text that arrives in pieces.

    It holds back text that may be the beginning of a mark.
    """

    def __init__(self) -> None:
        self._held = ""
        self._is_inside = False

    def take(self, piece: str) -> str:
        text, sent = self._held + piece, ""
        while True:
            if self._is_inside:
                text = text[_length_of_token(text) :]
                if not text:
                    break
                text = text.removeprefix(")")
                self._is_inside = False
            before, opening, after = text.partition(OPENING)
            if not opening:
                break
            sent += before + REMOVED
            text, self._is_inside = after, True
        self._held = "" if self._is_inside else _beginning(text)
        return sent + text[: len(text) - len(self._held)]

    def end(self) -> str:
        held, self._held, self._is_inside = self._held, "", False
        return held


def _length_of_token(text: str) -> int:
    found = _TOKEN.match(text)
    return found.end() if found else 0


def _beginning(text: str) -> str:
    """Return the longest suffix of a text that may be the beginning of a mark."""
    for length in range(min(len(text), len(OPENING) - 1), 0, -1):
        if OPENING.startswith(text[-length:]):
            return text[-length:]
    return ""

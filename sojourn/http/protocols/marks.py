"""Marks: by what the text of a chat says which reply it is, and how such a thing is taken out of what models write.

Only this service writes a mark. What a model, or a tool that it quotes, has written as one is taken out before a text is sent,
so that a text in a client has no mark but ours. A mark alone decides nothing: it counts in the chat that showed it (`openai/bound.py`).
"""

import re

from sojourn.http.protocols.place import Place, place_of_token

__all__ = ["REMOVED", "Unmarked", "mark_of", "unmarked", "without_tokens"]

OPENING = "[//]: # (sojourn:"
"""What a mark begins with: a comment in Markdown, which no page shows."""

REMOVED = "…"
"""What stands in place of a mark, so that the text before it and the text after it make none together."""

_TOKEN = re.compile(r"[A-Za-z0-9_-]*")
_TOKENS = re.compile(r"[A-Za-z0-9_-]{16,}")


def mark_of(place: Place) -> str:
    """What follows the text of a reply that asks something."""
    return f"\n\n{OPENING}{place.token})"


def unmarked(text: str) -> str:
    """A whole text of a model without marks."""
    filter = Unmarked()
    return filter.take(text) + filter.end()


def without_tokens(text: str) -> str:
    """A whole text of a model without marks, and without ids of tasks."""
    return _TOKENS.sub(lambda found: REMOVED if place_of_token(found[0]) else found[0], unmarked(text))


class Unmarked:
    """Takes marks out of a text that comes in pieces; what may be the beginning of one is held back."""

    def __init__(self) -> None:
        self._held = ""
        self._is_inside = False

    def take(self, piece: str) -> str:
        """Take a piece in, and return what of the text can be sent."""
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
        """What was held back, at the end of the text."""
        held, self._held, self._is_inside = self._held, "", False
        return held


def _length_of_token(text: str) -> int:
    found = _TOKEN.match(text)
    return found.end() if found else 0


def _beginning(text: str) -> str:
    """The longest end of a text with which a mark may begin."""
    for length in range(min(len(text), len(OPENING) - 1), 0, -1):
        if OPENING.startswith(text[-length:]):
            return text[-length:]
    return ""

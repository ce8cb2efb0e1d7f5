"""Marks: what a chat completion that asks something ends with, so that the chat's next message finds what it answers.

A client of chat completions sends nothing back but the texts. The mark is a comment in Markdown, which no page shows.
"""

import re

from sojourn.contracts.message import Message, TextPart
from sojourn.http.protocols.place import Place, place_of_token

__all__ = ["last_seen", "mark_of", "without_marks"]

_MARK = re.compile(r"\n\n\[//\]: # \(sojourn:([A-Za-z0-9_-]{1,4000})\)\s*\Z")


def mark_of(place: Place) -> str:
    """What follows the text of a reply that asks something."""
    return f"\n\n[//]: # (sojourn:{place.token})"


def last_seen(messages: list[Message]) -> tuple[Place, str] | None:
    """The reply that the last message may answer, and the text that was shown of it."""
    before = messages[-2] if len(messages) > 1 else None
    found = _MARK.search(before.text) if before and before.role == "assistant" else None
    place = place_of_token(found[1]) if found else None
    return (place, before.text) if place and before else None


def without_marks(messages: list[Message]) -> list[Message]:
    """The messages as an agent reads them."""
    return [_unmarked(message) if message.role == "assistant" else message for message in messages]


def _unmarked(message: Message) -> Message:
    parts = [
        TextPart(type="text", text=_MARK.sub("", part.text)) if isinstance(part, TextPart) else part
        for part in message.parts
    ]
    return message.model_copy(update={"parts": parts})

"""Bound: which reply the last message of a chat answers, if the chat is the one that the reply was shown in.

A client of chat completions sends nothing back but texts. A mark at the end of the text before finds the reply again, but a text can hold
anything. So a mark counts only for a run of this chat: the conversation that the request names, or a run that was started with the very
messages that this chat begins with, and has written each reply since. The histories say that, and so every process says the same.
"""

import re
from typing import Any

from sojourn.client.repeated import messages_at_start
from sojourn.contracts.message import Message, TextPart
from sojourn.contracts.principal import Principal
from sojourn.http.protocols.marks import OPENING
from sojourn.http.protocols.place import Place, place_of_token
from sojourn.http.service import Service

__all__ = ["last_reply", "without_marks"]

_MARK = re.compile(rf"\n\n{re.escape(OPENING)}([A-Za-z0-9_-]{{1,4000}})\)\s*\Z")


async def last_reply(
    service: Service, asking: Principal, messages: list[Message], conversation: str
) -> tuple[Place, str] | None:
    """The reply that the last message may answer, and the text that was shown of it; None where this chat has none.

    Args:
        service: The service.
        asking: Who asks.
        messages: The chat, of which the last message is the user's.
        conversation: The run of the conversation that the request names; empty where it names none.

    Raises:
        RunNotFound: The mark is that of a run which the principal may not see.
        ServerUnavailable: The server does not answer.
    """
    *before, shown = messages[:-1] or [messages[-1]]
    place = _place_in(shown)
    if place is None:
        return None
    if conversation:
        return (place, _unmarked(shown).text) if place.run_id == conversation else None
    await service.run(asking, place.run_id)
    opening = await messages_at_start(service.client.temporal, place.run_id)
    if not opening or not _has_begun_with(before, opening, place.run_id):
        return None
    return place, _unmarked(shown).text


def _has_begun_with(before: list[Message], opening: list[Message], run_id: str) -> bool:
    """Whether a chat began with the messages that a run was started with, and has had only replies of that run, and answers, since."""
    first, rest = before[: len(opening)], before[len(opening) :]
    if [_told(each) for each in without_marks(first)] != [_told(each) for each in opening]:
        return False
    replies, answers = rest[::2], rest[1::2]
    places = [_place_in(each) for each in replies]
    return (
        len(replies) == len(answers)
        and all(place is not None and place.run_id == run_id for place in places)
        and all(each.role == "user" for each in answers)
    )


def _place_in(message: Message) -> Place | None:
    found = _MARK.search(message.text) if message.role == "assistant" else None
    return place_of_token(found[1]) if found else None


def _told(message: Message) -> list[Any]:
    """What a message says, less the white space that clients change."""
    return [
        message.role,
        *(
            part.text.split() if isinstance(part, TextPart) else part.model_dump(mode="json")
            for part in message.parts
        ),
    ]


def without_marks(messages: list[Message]) -> list[Message]:
    """The messages as an agent reads them."""
    return [_unmarked(message) if message.role == "assistant" else message for message in messages]


def _unmarked(message: Message) -> Message:
    parts = [
        TextPart(type="text", text=_MARK.sub("", part.text)) if isinstance(part, TextPart) else part
        for part in message.parts
    ]
    return message.model_copy(update={"parts": parts})

"""Request bodies of the AI SDK, and how to read the requested turn from them.

The ids of messages and waits alone tell which messages and answers the client sent before.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, cast

from pydantic import ConfigDict, Field

from sojourn.contracts.message import Message, Part
from sojourn.errors import InvalidInput
from sojourn.http.bodies import Id
from sojourn.http.protocols.bodies import MAX_WAIT_ID, CamelBody, file_part, read_message, text_part
from sojourn.http.protocols.messages import IncomingMessage
from sojourn.http.protocols.turn_request import ClientAnswer, Result, TurnRequest

__all__ = ["ANSWER", "FILE_PATHS", "ChatRequest", "VercelBody", "VercelMessage", "card_id", "read"]


FILE_PATHS = (("messages", "*", "parts", "*", "url"),)
"""Where the data of files stands in a body."""

ANSWER = "answer-"
"""Prefix of the assistant message's id. The id of the message, or of the wait, that it answers follows."""

_OF_SDK = ("id", "descriptor", "isAutomatic", "signature", "inputSchemaInput", "requestContext")
"""Fields that the SDK adds to an approval, beside the decision."""

_CARD = re.compile(r"^(.*?#[0-9a-f]*)~.*$", re.DOTALL)


class VercelMessage(CamelBody):
    """A `UIMessage`."""

    id: Id
    """The id; of a message of the user, it is delivered once by it."""
    role: str
    """`user`, `assistant` or `system`."""
    parts: Annotated[list[dict[str, Any]], Field(max_length=10_000, default_factory=list[dict[str, Any]])]
    """Texts, files, calls, data and others."""


class VercelBody(CamelBody):
    """The body that `DefaultChatTransport` of the AI SDK sends. Other fields are ignored."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "desk-1",
                    "trigger": "submit-message",
                    "messages": [
                        {
                            "id": "m-1",
                            "role": "user",
                            "parts": [{"type": "text", "text": "Where is order 7?"}],
                        }
                    ],
                }
            ]
        }
    )

    id: Id
    """The chat, which is the session."""
    messages: Annotated[list[VercelMessage], Field(min_length=1, max_length=10_000)]
    """The messages of the chat."""
    trigger: str = ""
    """`regenerate-message` asks for another answer to the last message of the user, in another branch of the chat."""
    message_id: str | None = None
    """With `submit-message`, the message of the user that was edited."""


@dataclass(frozen=True, slots=True)
class ChatRequest(TurnRequest):
    message_id: str = ""
    """The id of the assistant's message that is streamed."""
    calls: frozenset[str] = frozenset()
    """Calls that the assistant's message already has."""
    reply: IncomingMessage | None = None
    """The text after a question."""

    @property
    def replies(self) -> Sequence[ClientAnswer]:
        """Answers that are the text of a message, which may also be a message of its own."""
        return [each for each in self.answers if each.message_id] if self.reply else ()

    def as_message(self) -> "ChatRequest":
        """Return the same turn, with the text after the question as a message of its own."""
        assert self.reply is not None
        decisions = [each for each in self.answers if not each.message_id]
        return ChatRequest(
            sent=[self.reply], message_id=f"{ANSWER}{self.reply.message_id}", answers=decisions
        )


def read(messages: Sequence[VercelMessage]) -> ChatRequest:
    """Parse a chat: the user's last messages, or the decisions in the assistant's."""
    last = messages[-1]
    earlier = [each for message in messages[:-1] for each in _decisions(message, is_old=True)]
    if last.role != "assistant":
        chat = _of_user(messages)
        return replace(chat, answers=[*{each.id: each for each in earlier}.values(), *chat.answers])
    opening, seen = _opening(messages, len(messages) - 1)
    return ChatRequest(
        sent=opening,
        message_id=last.id,
        answers=list({each.id: each for each in (*earlier, *_decisions(last))}.values()),
        results=list(_results(last)),
        seen=seen,
        calls=frozenset(str(part["toolCallId"]) for part in last.parts if "toolCallId" in part),
    )


def _decisions(message: VercelMessage, *, is_old: bool = False) -> Iterator[ClientAnswer]:
    if message.role != "assistant":
        return
    for part in message.parts:
        approval: Any = part.get("approval")
        if (
            part.get("state") != "approval-responded"
            or not isinstance(approval, dict)
            or "id" not in approval
        ):
            continue
        decided = {
            name: value for name, value in cast("dict[str, Any]", approval).items() if name not in _OF_SDK
        }
        id = wait_id(str(cast("dict[str, Any]", approval)["id"])[:MAX_WAIT_ID])
        yield ClientAnswer(id, payload=decided, arguments=part.get("input"), is_old=is_old)


def _of_user(messages: Sequence[VercelMessage]) -> ChatRequest:
    last = messages[-1]
    sent: list[IncomingMessage] = []
    at = len(messages)
    while at and messages[at - 1].role != "assistant":
        at -= 1
        if messages[at].role == "user":
            sent.insert(0, IncomingMessage(Message(role="user", parts=[]), messages[at].id))
    questions = _questions(messages[at - 1]) if at and len(sent) == 1 else []
    explicit = [each for each in _explicit(last) if each.id in questions]
    if explicit:
        opening, seen = _opening(messages, at - 1)
        return ChatRequest(opening, explicit, seen=seen, message_id=f"{ANSWER}{explicit[-1].id}")
    sent = [_incoming(each) for each in messages[at:] if each.role == "user"]
    text = sent[-1].message.text if sent else ""
    if len(questions) == 1 and text:
        opening, seen = _opening(messages, at - 1)
        answers = [ClientAnswer(questions[0], payload=text, message_id=last.id)]
        return ChatRequest(opening, answers, seen=seen, message_id=f"{ANSWER}{questions[0]}", reply=sent[-1])
    return ChatRequest(sent, message_id=f"{ANSWER}{last.id}")


def _opening(messages: Sequence[VercelMessage], at: int) -> tuple[list[IncomingMessage], list[str]]:
    """Return the message that opened a turn, and the question before its last reply."""
    seen: list[str] = []
    while at > 0:
        user = at - 1
        while user >= 0 and messages[user].role != "user":
            user -= 1
        if user < 0:
            break
        before = user - 1
        questions = _questions(messages[before]) if before >= 0 else []
        answered = messages[at].id.removeprefix(ANSWER)
        if answered not in questions:
            return [_incoming(messages[user])], seen
        seen = seen or [answered]
        at = before
    return [], seen


def _questions(message: VercelMessage) -> list[str]:
    if message.role != "assistant":
        return []
    return [str(part.get("id")) for part in message.parts if part.get("type") == "data-question"]


def _explicit(message: VercelMessage) -> Iterator[ClientAnswer]:
    """Yield the answers in data parts.

    Their shape is `{"type": "data-answer", "data": {"id", "answer" or "declined"}}`.
    """
    for part in message.parts:
        data: Any = part.get("data")
        if part.get("type") == "data-answer" and isinstance(data, dict):
            found = cast("dict[str, Any]", data)
            declined = found.get("declined") is True
            payload = found.get("reason") if declined else found.get("answer")
            yield ClientAnswer(str(found.get("id")), payload=payload, is_declined=declined)


def _results(message: VercelMessage) -> Iterator[Result]:
    for part in message.parts:
        if "toolCallId" not in part or part.get("preliminary"):
            continue
        if part.get("state") == "output-available":
            yield Result(str(part["toolCallId"]), part.get("output"))
        elif part.get("state") == "output-error":
            yield Result(str(part["toolCallId"]), error=str(part.get("errorText") or "the call failed"))


def _incoming(message: VercelMessage) -> IncomingMessage:
    return IncomingMessage(read_message(message.parts, _part), message.id)


def _part(part: Any) -> Part | None:
    match part:
        case {"type": "text", "text": str(text)}:
            return text_part(text)
        case {"type": "file", "mediaType": str(kind), "url": str(url), **rest}:
            return file_part(kind, url=url, title=rest.get("filename"))
        case {"type": str(kind)} if kind.startswith("data-") or kind == "step-start":
            return None
        case _:
            raise InvalidInput("a message of the user has texts and files")


def card_id(wait_id: str, message_id: str) -> str:
    return f"{wait_id}~{message_id}"


def wait_id(card_id: str) -> str:
    return _CARD.sub(r"\1", card_id)

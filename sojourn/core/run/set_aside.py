"""Set aside: messages and results that an operator takes out of what planners read.

A provider that refuses a message names it, and `sojourn.models.set_aside` leaves it out by itself. What spoils a conversation in a way that
no provider names, an operator sets aside by hand. A message of the system records it: the transcript keeps what was set
aside, and planners read a short text in its place.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sojourn.contracts.message import (
    CompactionPart,
    Message,
    OtherPart,
    Part,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from sojourn.contracts.wire_names import SET_ASIDE
from sojourn.core.awaits.sent import Refused, by_of, text_of
from sojourn.core.run.refused import outcome_alone
from sojourn.core.values.text import clip, echo
from sojourn.core.values.unread import unread_in

__all__ = [
    "MAX_SET_ASIDE",
    "SetAsideRequest",
    "read_set_aside",
    "requests_by_message",
    "requests_in",
    "without_set_aside",
]

MAX_SET_ASIDE = 100
"""Most messages and results that are set aside in one run."""

_MAX_REASON_CHARS = 300
_MAX_ID_CHARS = 200
_FIELDS = ("message", "tool_call_id", "reason", "by")

_LEFT_OUT = "(A message was left out here, because an operator set it aside.)"
_BY_OPERATOR = "an operator set it aside"


@dataclass(frozen=True, slots=True)
class SetAsideRequest:
    """What an operator sets aside: a message, or the result of one call in it."""

    message: int
    """Index of the message in the transcript."""
    tool_call_id: str | None = None
    """The call whose result is meant; None for the whole message."""
    reason: str = ""
    by: str | None = None

    @property
    def target(self) -> str:
        """What is meant, in words; equal for a repetition of the request."""
        of_call = f"the result of {self.tool_call_id} in " if self.tool_call_id else ""
        return f"{of_call}message {self.message}"

    @property
    def note(self) -> str:
        """The note for people who follow the run."""
        why = f": {self.reason}" if self.reason else ""
        return f"set aside: {self.target}{why}"

    @property
    def record(self) -> Message:
        """The message of the transcript that records it; models read nothing of it."""
        fields = {
            "message": self.message,
            "tool_call_id": self.tool_call_id,
            "why": self.reason,
            "by": self.by,
        }
        given = {name: value for name, value in fields.items() if value not in (None, "")}
        return Message(role="system", parts=[OtherPart.model_validate({"type": SET_ASIDE, **given})])


def read_set_aside(values: Sequence[Any]) -> SetAsideRequest | Refused:
    """Read `{"message", "tool_call_id", "reason", "by"}`."""
    if unread := unread_in(values):
        return Refused(unread.reason)
    value = values[0] if len(values) == 1 else None
    if not isinstance(value, dict):
        return Refused(
            f"{SET_ASIDE} takes one object, with `message`, the number of a message of the transcript"
        )
    fields = cast("dict[str, Any]", value)
    unknown = next((name for name in fields if name not in _FIELDS), None)
    if unknown is not None:
        known = ", ".join(f"`{name}`" for name in _FIELDS)
        return Refused(f"{SET_ASIDE} does not know {echo(unknown)}; it takes {known}")
    by, reason = by_of(fields), text_of(fields, "reason")
    if isinstance(by, Refused):
        return by
    if isinstance(reason, Refused):
        return reason
    found = _target(fields)
    if found is None:
        return Refused(
            "`message` is the number of a message of the transcript, and `tool_call_id` the id of a call in it"
        )
    return SetAsideRequest(*found, clip(reason, _MAX_REASON_CHARS), by)


def _target(fields: Mapping[str, Any]) -> tuple[int, str | None] | None:
    index, call_id = fields.get("message"), fields.get("tool_call_id")
    is_call = call_id is None or (isinstance(call_id, str) and 0 < len(call_id) <= _MAX_ID_CHARS)
    return (index, call_id) if type(index) is int and index >= 0 and is_call else None


def requests_in(messages: Sequence[Message]) -> list[SetAsideRequest]:
    """Return what a transcript records as set aside by hand, the oldest first."""
    return [request for _, request in _recorded(messages)]


def requests_by_message(messages: Sequence[Message]) -> dict[int, list[SetAsideRequest]]:
    """Return what a transcript records as set aside by hand, by the index of the message."""
    found: dict[int, list[SetAsideRequest]] = {}
    for request in requests_in(messages):
        found.setdefault(request.message, []).append(request)
    return found


def _recorded(messages: Sequence[Message]) -> Iterator[tuple[int, SetAsideRequest]]:
    """Yield each record with its place in the transcript."""
    for at, message in enumerate(messages):
        if message.role != "system":
            continue
        for part in message.parts:
            if not isinstance(part, OtherPart) or part.type != SET_ASIDE:
                continue
            fields: dict[str, Any] = part.model_extra or {}
            if found := _target(fields):
                reason, by = fields.get("why"), fields.get("by")
                yield at, SetAsideRequest(*found, str(reason or ""), str(by) if by else None)


def without_set_aside(messages: Sequence[Message]) -> list[Message]:
    """Return a transcript with a short text in place of what was set aside by hand.

    A summary that an earlier compaction made of a message that was set aside later is left out too: models read the
    messages in its place, and the planner makes a new summary.
    """
    read = [*messages]
    for at, request in _recorded(messages):
        if request.message < at:
            read[request.message] = _left_out(read[request.message], request.tool_call_id)
        for place, message in enumerate(read[:at]):
            if any(_has_read(part, request.message) for part in message.parts):
                parts = [part for part in message.parts if not _has_read(part, request.message)]
                read[place] = message.model_copy(update={"parts": parts})
    return read


def _has_read(part: Part, index: int) -> bool:
    """Whether a part is a summary of a transcript's beginning that has a message."""
    return isinstance(part, CompactionPart) and index < part.until


def _left_out(message: Message, tool_call_id: str | None) -> Message:
    if tool_call_id is not None or message.role == "tool":
        parts: list[Part] = [_without_result(part, tool_call_id) for part in message.parts]
        return message.model_copy(update={"parts": parts})
    parts = [_without_arguments(part) for part in message.parts if _stays(part)]
    if not message.tool_calls:
        parts.append(TextPart(type="text", text=_LEFT_OUT))
    return message.model_copy(update={"parts": parts})


def _stays(part: Part) -> bool:
    """Whether a part is a call, which is answered in the next message, or a record of what models read."""
    is_record = isinstance(part, OtherPart) and part.type == SET_ASIDE
    return is_record or isinstance(part, (ToolCallPart, CompactionPart))


def _without_arguments(part: Part) -> Part:
    """The part; a call keeps its id and its name, by which its result belongs to it."""
    if not isinstance(part, ToolCallPart):
        return part
    return ToolCallPart(type="tool_call", tool_call_id=part.tool_call_id, name=part.name)


def _without_result(part: Part, tool_call_id: str | None) -> Part:
    """The part; with a short text in place of its result if that is the call's, or any call's with None."""
    if not isinstance(part, ToolResultPart) or tool_call_id not in (None, part.result.tool_call_id):
        return part
    return part.model_copy(update={"result": outcome_alone(part.result, _BY_OPERATOR)})

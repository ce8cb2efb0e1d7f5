"""Messages and results that planners do not read.

A provider refuses a whole request, for one picture or sentence in it. Sent again with every later turn, that message would end the
conversation for good. So the notice that tells of the failed turn is marked, and stays so in the transcript. A marked notice makes
the messages of its turn suspects, and no more: the provider may have refused a setting. `sojourn.models.set_aside` leaves them out of a
request only after the provider has refused one with them, and records what was left out if it takes the other. Only what a content
filter has refused is left out at once.

A provider that refuses a message names it, and `sojourn.models.set_aside` leaves it out by itself. What spoils a conversation in a way that
no provider names, an operator sets aside by hand. A message of the system records it: the transcript keeps what was set
aside, and planners read a short text in its place.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
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
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.wire_names import SET_ASIDE
from sojourn.core.awaits.envelope import Rejection, read_sender, read_text
from sojourn.values.text import clip, echo
from sojourn.values.undecodable import first_undecodable

__all__ = [
    "MAX_SET_ASIDE",
    "SetAsideRequest",
    "Suspects",
    "drop_set_aside",
    "failure_notice",
    "leave_out",
    "outcome_alone",
    "read_set_aside",
    "records_in",
    "requests_by_message",
    "requests_in",
    "suspects_in",
]

_FILTERED = "ContentFiltered"

_REFUSALS = (_FILTERED, "ModelRejected")
"""Codes of turns whose request a provider refused, maybe for a message's content."""

_MARK = "refused"
"""In the provider metadata of the notice."""

_PROVEN = "filtered"
"""In the provider metadata of a notice about messages that a content filter refused."""

_MAX_CHARS = 2_000

_LEFT_OUT_AS_REFUSED = "(A message was left out here, because the model's provider refused it.)"
_REFUSED = "the model's provider refused it"


def failure_notice(failure: ToolError) -> Message:
    """Return the message that tells the next turn's planner why the last turn failed."""
    text = f"The last turn failed: {failure.message[:_MAX_CHARS]}"
    codes = _codes(failure)
    if not codes.intersection(_REFUSALS):
        return Message.system(text)
    mark = {_MARK: True, **({_PROVEN: True} if _FILTERED in codes else {})}
    return Message(role="system", parts=[TextPart(type="text", text=text, provider_metadata=mark)])


def _codes(failure: ToolError) -> set[str]:
    codes: set[str] = set()
    error: ToolError | None = failure
    while error is not None:
        codes.add(error.code or "")
        error = error.cause
    return codes


@dataclass(frozen=True, slots=True)
class Suspects:
    """User messages and results that a provider may have refused.

    They are indices in the transcript.
    """

    filtered: tuple[int, ...] = ()
    """Those of turns that a content filter refused."""
    recent: tuple[int, ...] = ()
    """Those of other refused turns since the model's last message."""
    earlier: tuple[int, ...] = ()
    """Those of other refused turns before it."""


def suspects_in(messages: Sequence[Message]) -> Suspects:
    """Return the messages of the turns that a model's provider refused."""
    last = max((at for at, message in enumerate(messages) if message.role == "assistant"), default=-1)
    start = 0
    filtered, recent, earlier = list[int](), list[int](), list[int]()
    for at, message in enumerate(messages):
        if message.role == "assistant":
            start = at + 1
        elif _is_marked(message, _MARK):
            found = filtered if _is_marked(message, _PROVEN) else recent if at > last else earlier
            found += [each for each in range(start, at) if messages[each].role in ("user", "tool")]
            start = at + 1
    return Suspects(tuple(filtered), tuple(recent), tuple(earlier))


def _is_marked(message: Message, mark: str) -> bool:
    return message.role == "system" and any(
        part.provider_metadata is not None and part.provider_metadata.get(mark) is True
        for part in message.parts
    )


def leave_out(message: Message, calls: Collection[str] = ()) -> Message:
    """Return a message with a short text in place of its content.

    The text replaces a user's message, or each result. Any other message stays as it is.
    """
    if message.role == "user":
        return Message.user(_LEFT_OUT_AS_REFUSED)
    if message.role != "tool":
        return message
    parts: list[Part] = [
        part.model_copy(update={"result": outcome_alone(part.result, _REFUSED)})
        if isinstance(part, ToolResultPart) and (not calls or part.result.tool_call_id in calls)
        else part
        for part in message.parts
    ]
    return message.model_copy(update={"parts": parts})


def outcome_alone(result: ToolResult, why: str) -> ToolResult:
    """Return the outcome of a call without its content.

    It says whether the call succeeded or failed, and whether it may have had an effect. A model that
    cannot know whether it has paid pays again.
    """
    error = result.error
    if error is None:
        text = f"(The call succeeded, and its effect, if it has one, took place. Its result was left out here, because {why}.)"
        return ToolResult(name=result.name, tool_call_id=result.tool_call_id, result=text)
    kept = ToolError(
        message=f"The call failed. What it answered was left out here, because {why}.",
        code=error.code,
        outcome_unknown=error.outcome_unknown,
        without_effect=error.without_effect,
    )
    return ToolResult(name=result.name, tool_call_id=result.tool_call_id, error=kept)


MAX_SET_ASIDE = 100
"""Most messages and results that are set aside in one run."""

_MAX_REASON_CHARS = 300
_MAX_ID_CHARS = 200
_FIELDS = ("message", "tool_call_id", "reason", "by")

_LEFT_OUT = "(A message was left out here, because an operator set it aside.)"
_BY_OPERATOR = "an operator set it aside"


@dataclass(frozen=True, slots=True)
class SetAsideRequest:
    """A message that an operator sets aside, or the result of one call in it."""

    message: int
    tool_call_id: str | None = None
    """The call whose result is meant; None for the whole message."""
    reason: str = ""
    by: str | None = None

    @property
    def target(self) -> str:
        """The target of the request in words, which is equal for a repetition of it."""
        of_call = f"the result of {self.tool_call_id} in " if self.tool_call_id else ""
        return f"{of_call}message {self.message}"

    @property
    def note(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"set aside: {self.target}{why}"

    @property
    def record(self) -> Message:
        """The transcript's message about the request, which models do not read."""
        fields = {
            "message": self.message,
            "tool_call_id": self.tool_call_id,
            "why": self.reason,
            "by": self.by,
        }
        given = {name: value for name, value in fields.items() if value not in (None, "")}
        return Message(role="system", parts=[OtherPart.model_validate({"type": SET_ASIDE, **given})])


def read_set_aside(values: Sequence[Any]) -> SetAsideRequest | Rejection:
    """Read `{"message", "tool_call_id", "reason", "by"}`."""
    if unread := first_undecodable(values):
        return Rejection(unread.reason)
    value = values[0] if len(values) == 1 else None
    if not isinstance(value, dict):
        return Rejection(
            f"{SET_ASIDE} takes one object, with `message`, the number of a message of the transcript"
        )
    fields = cast("dict[str, Any]", value)
    unknown = next((name for name in fields if name not in _FIELDS), None)
    if unknown is not None:
        known = ", ".join(f"`{name}`" for name in _FIELDS)
        return Rejection(f"{SET_ASIDE} does not know {echo(unknown)}; it takes {known}")
    by, reason = read_sender(fields), read_text(fields, "reason")
    if isinstance(by, Rejection):
        return by
    if isinstance(reason, Rejection):
        return reason
    found = _target(fields)
    if found is None:
        return Rejection(
            "`message` is the number of a message of the transcript, and `tool_call_id` the id of a call in it"
        )
    return SetAsideRequest(*found, clip(reason, _MAX_REASON_CHARS), by)


def _target(fields: Mapping[str, Any]) -> tuple[int, str | None] | None:
    index, call_id = fields.get("message"), fields.get("tool_call_id")
    is_call = call_id is None or (isinstance(call_id, str) and 0 < len(call_id) <= _MAX_ID_CHARS)
    return (index, call_id) if type(index) is int and index >= 0 and is_call else None


def requests_in(messages: Sequence[Message]) -> list[SetAsideRequest]:
    """Return a transcript's records of what operators set aside, the oldest first."""
    return [request for _, request in _read_record(messages)]


def requests_by_message(messages: Sequence[Message]) -> dict[int, list[SetAsideRequest]]:
    """Return the requests that a transcript records as set aside by hand."""
    found: dict[int, list[SetAsideRequest]] = {}
    for request in requests_in(messages):
        found.setdefault(request.message, []).append(request)
    return found


def records_in(messages: Sequence[Message], role: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield what messages of a role record as set aside.

    Each item is the place of the message, and the fields of the record. An operator's record is in a
    message of the system. A record of what a provider refused is in one of the assistant.
    """
    for at, message in enumerate(messages):
        if message.role == role:
            for part in message.parts:
                if isinstance(part, OtherPart) and part.type == SET_ASIDE:
                    yield at, part.model_extra or {}


def _read_record(messages: Sequence[Message]) -> Iterator[tuple[int, SetAsideRequest]]:
    for at, fields in records_in(messages, "system"):
        if found := _target(fields):
            reason, by = fields.get("why"), fields.get("by")
            yield at, SetAsideRequest(*found, str(reason or ""), str(by) if by else None)


def drop_set_aside(messages: Sequence[Message]) -> list[Message]:
    """Return a transcript with a short text in place of the parts set aside by hand.

    A summary that an earlier compaction made of a message that was set aside later is left out too: models read the
    messages in its place, and the planner makes a new summary.
    """
    read = [*messages]
    for at, request in _read_record(messages):
        if request.message < at:
            read[request.message] = _leave_out_part(read[request.message], request.tool_call_id)
        for place, message in enumerate(read[:at]):
            if any(_has_read(part, request.message) for part in message.parts):
                parts = [part for part in message.parts if not _has_read(part, request.message)]
                read[place] = message.model_copy(update={"parts": parts})
    return read


def _has_read(part: Part, index: int) -> bool:
    """Check whether a part is a summary of a transcript's beginning with a message."""
    return isinstance(part, CompactionPart) and index < part.until


def _leave_out_part(message: Message, tool_call_id: str | None) -> Message:
    if tool_call_id is not None or message.role == "tool":
        parts: list[Part] = [_without_result(part, tool_call_id) for part in message.parts]
        return message.model_copy(update={"parts": parts})
    parts = [_without_arguments(part) for part in message.parts if _stays(part)]
    if not message.tool_calls:
        parts.append(TextPart(type="text", text=_LEFT_OUT))
    return message.model_copy(update={"parts": parts})


def _stays(part: Part) -> bool:
    # A call stays, since the next message answers it, and so does a record of what models read.
    is_record = isinstance(part, OtherPart) and part.type == SET_ASIDE
    return is_record or isinstance(part, (ToolCallPart, CompactionPart))


def _without_arguments(part: Part) -> Part:
    # A call keeps its id and its name, so that its result still belongs to it.
    if not isinstance(part, ToolCallPart):
        return part
    return ToolCallPart(type="tool_call", tool_call_id=part.tool_call_id, name=part.name)


def _without_result(part: Part, tool_call_id: str | None) -> Part:
    if not isinstance(part, ToolResultPart) or tool_call_id not in (None, part.result.tool_call_id):
        return part
    return part.model_copy(update={"result": outcome_alone(part.result, _BY_OPERATOR)})

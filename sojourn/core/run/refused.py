"""Messages that a model's provider may have refused.

A provider refuses a request whole, for one picture or sentence in it. Sent again with every later turn, that message would end the
conversation for good. So the notice that tells of the failed turn is marked, and stays so in the transcript. A marked notice makes
the messages of its turn suspects, and no more: the provider may have refused a setting. `sojourn.models.set_aside` leaves them out of a
request only after the provider has refused one with them, and records what was left out if it takes the other. Only what a content
filter has refused is left out at once.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sojourn.contracts.message import Message, Part, TextPart, ToolResultPart
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult

__all__ = ["Suspects", "failure_notice", "left_out", "outcome_alone", "suspects_in"]

_FILTERED = "ContentFiltered"

_REFUSALS = (_FILTERED, "ModelRejected")
"""Codes of turns whose request a model's provider refused, perhaps for what a message says."""

_MARK = "refused"
"""In the provider metadata of the notice."""

_PROVEN = "filtered"
"""In the provider metadata of a notice of what a content filter refused."""

_MAX_CHARS = 2_000

_LEFT_OUT = "(A message was left out here, because the model's provider refused it.)"
_REFUSED = "the model's provider refused it"


def failure_notice(failure: ToolError) -> Message:
    """The message that tells the planner of the next turn why the last one failed."""
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
    """Messages of users and results that a provider may have refused, by their indices in the transcript."""

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


def left_out(message: Message, calls: Collection[str] = ()) -> Message:
    """A short text in place of a message of a user, or in place of each result; any other message as it is.

    Args:
        message: The message.
        calls: The calls whose results are left out; empty for all of the message.
    """
    if message.role == "user":
        return Message.user(_LEFT_OUT)
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
    """The outcome of a call without its content: whether it succeeded or failed, and whether it may have had an effect.

    A model that cannot know whether it has paid pays again.

    Args:
        result: The result of the call.
        why: Why its content is left out, as a clause.
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

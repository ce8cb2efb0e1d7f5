"""Messages that a model's provider refused: later turns of a conversation are planned without their content.

A provider refuses a request whole, for one picture or sentence in it. Sent again with every later turn, that message would end the
conversation for good. So the notice that tells of the failed turn is marked, and stays so in the transcript. Everything
before the last message of the model was accepted with it: what came between that message and the notice was refused.
"""

from collections.abc import Collection, Sequence

from sojourn.contracts.message import Message, Part, TextPart, ToolResultPart
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult

__all__ = ["failure_notice", "left_out", "outcome_alone", "without_refused"]

_REFUSALS = ("ContentFiltered", "ModelRejected")
"""Codes of turns whose request a model's provider refused for what it said."""

_MARK = "refused"
"""In the provider metadata of the notice."""

_MAX_CHARS = 2_000

_LEFT_OUT = "(A message was left out here, because the model's provider refused it.)"
_REFUSED = "the model's provider refused it"


def failure_notice(failure: ToolError) -> Message:
    """The message that tells the planner of the next turn why the last one failed."""
    text = f"The last turn failed: {failure.message[:_MAX_CHARS]}"
    if not _is_refusal(failure):
        return Message.system(text)
    return Message(role="system", parts=[TextPart(type="text", text=text, provider_metadata={_MARK: True})])


def _is_refusal(failure: ToolError) -> bool:
    error: ToolError | None = failure
    while error is not None:
        if error.code in _REFUSALS:
            return True
        error = error.cause
    return False


def without_refused(messages: Sequence[Message]) -> list[Message]:
    """The transcript with a short text in place of each message and result that a model's provider refused."""
    read = list(messages)
    accepted = 0
    for place, message in enumerate(messages):
        if message.role == "assistant":
            accepted = place + 1
        elif _is_marked(message):
            read[accepted:place] = [left_out(each) for each in read[accepted:place]]
    return read


def _is_marked(message: Message) -> bool:
    return message.role == "system" and any(
        part.provider_metadata is not None and part.provider_metadata.get(_MARK) is True
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

"""Outcome: a model's response as a plan, or as a correction, for which the model is asked once.

| response | comes to |
|---|---|
| calls, with or without text | the calls; arguments that are not JSON go to the boundary as they were written |
| `ask_user` | a question; the other calls are answered as not executed |
| the typed answer, alone or with calls | the answer, validated; the calls are left out, with a note |
| text | the answer; where a typed one is wanted, the text counts when it is one JSON object that fits |
| text, cut off at the output limit | the answer as far as it goes, with a note |
| a refusal | the answer, with a note |
| text that a content filter cut off | the answer as far as it goes, with a note |
| nothing, or thinking alone | a correction; the second time `EmptyAnswer` |
| nothing, cut off at the output limit | `OutputLimit` |
| nothing, by a content filter | `ContentFiltered` |
| a stream that ended without its last event | a fault, `ModelUnavailable`: it is asked again |
| an unknown finish reason | what the parts say |
| `ask_user` or a typed answer that does not fit | a correction; the second time `MalformedAnswer` |
"""

import json
from dataclasses import dataclass, field
from typing import Any

from temporalio.exceptions import ApplicationError

from sojourn.contracts.awaits import AwaitClarification
from sojourn.contracts.message import Message, ToolCallPart
from sojourn.contracts.plan import PlanResult
from sojourn.core.payload.parse import ParseFault, parse_arguments
from sojourn.core.payload.reading import read_text
from sojourn.core.values.json_value import is_array
from sojourn.core.values.text import counted
from sojourn.models.expected import Expected
from sojourn.models.names import Names
from sojourn.models.offered import ASK_USER, FINAL_RESULT

__all__ = ["Correction", "Reply", "plan_of"]

_CUT_OFF = "the answer was cut off at the model's output limit"
_FILTERED = "the answer was cut off by the provider's content filter"
_REFUSED = "the model refused to answer"


@dataclass(frozen=True)
class Reply:
    """A model's response."""

    message: Message
    """The response as a message of the transcript, with calls by tool id."""
    finish: str | None
    """The finish reason: `stop`, `length`, `content_filter`, `tool_call`, `error`, a later one, or None."""
    refusal: str | None = None
    """The model's refusal, where the provider reports it apart from the text."""


@dataclass(frozen=True)
class Correction:
    """A request to the model to replace a response that cannot be used."""

    code: str
    """The run's error code, when the next response cannot be used either."""
    text: str
    """What is wrong, and what the model should do instead."""
    answers: dict[str, str] = field(default_factory=dict[str, str])
    """The answer to each call of the response, by call id; empty for a response without calls."""

    def error(self) -> ApplicationError:
        """Return the error of a run whose model gave no valid response after the correction."""
        return ApplicationError(
            f"the model was corrected once and still did not give a valid answer: {self.text}",
            type=self.code,
            non_retryable=True,
        )


def plan_of(
    reply: Reply, names: Names, *, expected: Expected | None, may_ask: bool
) -> PlanResult | Correction:
    """Return the plan for a response, or its correction, by the table above.

    Args:
        reply: The response.
        names: The tools of the request.
        expected: The typed answer that is required; None for a text.
        may_ask: Whether `ask_user` was offered.

    Raises:
        ApplicationError: `OutputLimit` or `ContentFiltered`, which no correction repairs.
    """
    calls = reply.message.tool_calls
    by_name = {call.name: call for call in reversed(calls)}
    if expected and FINAL_RESULT in by_name:
        return _typed(reply, by_name[FINAL_RESULT], expected)
    if may_ask and ASK_USER in by_name:
        return _question(reply, by_name[ASK_USER], names)
    if calls:
        return PlanResult(tool_calls=[call.request for call in calls], message=reply.message)
    if reply.refusal:
        return PlanResult(final_response=Message.assistant(reply.refusal), notes=[_REFUSED])
    if not reply.message.text.strip():
        return _empty(reply)
    if expected:
        return _typed_text(reply, expected)
    return PlanResult(final_response=reply.message, notes=_notes(reply))


def _notes(reply: Reply) -> list[str]:
    if reply.finish == "length":
        return [_CUT_OFF]
    return [_FILTERED] if reply.finish == "content_filter" else []


def _empty(reply: Reply) -> Correction:
    if reply.finish == "length":
        raise ApplicationError(
            f"{_CUT_OFF} before it began; allow more with ModelPlanner(settings={{'max_tokens': ...}})",
            type="OutputLimit",
            non_retryable=True,
        )
    if reply.finish == "content_filter":
        raise ApplicationError(
            "the provider's content filter held the answer back; change what is asked, or the model",
            type="ContentFiltered",
            non_retryable=True,
        )
    return Correction("EmptyAnswer", "Your response was empty. Answer, or call a tool.")


# The typed answer.


def _typed(reply: Reply, call: ToolCallPart, expected: Expected) -> PlanResult | Correction:
    payload = _arguments(call)
    if isinstance(payload, str):
        return Correction("MalformedAnswer", payload, _answered(reply, call, payload))
    payload = expected.read(payload)
    mismatch = expected.mismatch(payload)
    if mismatch is not None:
        return Correction("MalformedAnswer", mismatch, _answered(reply, call, mismatch))
    others = len(reply.message.tool_calls) - 1
    notes = (
        [f"{counted(others, 'call')} beside the answer {'was' if others == 1 else 'were'} not made"]
        if others
        else []
    )
    return _answer(reply, expected.value(payload), [*_notes(reply), *notes])


def _typed_text(reply: Reply, expected: Expected) -> PlanResult | Correction:
    read = parse_arguments(reply.message.text)
    if isinstance(read, ParseFault):
        return Correction("MalformedAnswer", f"Give your answer by calling `{FINAL_RESULT}`.")
    payload = expected.read(read.payload)
    mismatch = expected.mismatch(payload)
    if mismatch is not None:
        return Correction("MalformedAnswer", mismatch)
    return _answer(reply, expected.value(payload), _notes(reply))


def _answer(reply: Reply, value: Any, notes: list[str]) -> PlanResult:
    text = reply.message.text.strip() or json.dumps(value, ensure_ascii=False)
    return PlanResult(final_response=Message.assistant(text), result=value, notes=notes)


# The question.


def _question(reply: Reply, call: ToolCallPart, names: Names) -> PlanResult | Correction:
    payload = _arguments(call)
    if isinstance(payload, str):
        return Correction("MalformedAnswer", payload, _answered(reply, call, payload))
    question, tool = payload.get("question"), payload.get("tool")
    if not isinstance(question, str) or not question.strip():
        text = f"`{ASK_USER}` takes a `question`, a text that says what to ask."
        return Correction("MalformedAnswer", text, _answered(reply, call, text))
    return PlanResult(
        await_=AwaitClarification(
            question=question[:4_000],
            missing_fields=_field_names(payload.get("missing_fields")),
            restrict_to_tool=names.id_of(tool) if isinstance(tool, str) else None,
            tool_call_id=call.tool_call_id,
        ),
        message=reply.message,
    )


def _field_names(value: Any) -> list[str]:
    """Return the texts of a list that a model wrote, at most 50 of at most 200 characters."""
    return [name[:200] for name in value[:50] if isinstance(name, str)] if is_array(value) else []


def _arguments(call: ToolCallPart) -> dict[str, Any] | str:
    """Return the arguments, or a text that says why they cannot be read."""
    if call.raw is None:
        return call.payload
    read = read_text(call.raw)
    if isinstance(read, ParseFault):
        return (
            f"The arguments of `{call.name}` cannot be read: {read.message}. Send one complete JSON object."
        )
    return read.payload


def _answered(reply: Reply, wrong: ToolCallPart, text: str) -> dict[str, str]:
    """Return the answers to all calls of a response, by call id, of which one call is wrong."""
    others = f"not executed: the call of `{wrong.name}` in the same response was not valid"
    return {call.tool_call_id: text if call is wrong else others for call in reply.message.tool_calls}

"""A model's response as a plan, or as a correction for the model.

After a correction the planner sends another request.

| response | becomes |
|---|---|
| calls, with or without text | the calls; arguments that are not JSON go to the boundary as they were written |
| calls, cut off at the output limit, by a content filter, by a full context window, or by the provider (`abort`, `OTHER`, `pause_turn`) | the calls but the last, which is answered with the reason and not executed |
| calls, with a finish reason that is unknown, or that the stream left out | the calls; if the arguments of the last are not complete JSON, the calls but the last |
| calls in the last turn of a run | a correction; the second time the text beside them, with a note, else the run ends without an answer |
| `ask_user` | a question; the other calls are answered as not executed |
| the typed answer, alone or with calls | the answer, validated; the calls are left out, with a note |
| `call_tool` without a tool's name, or without arguments | a correction; the second time a call of a tool that does not exist |
| text | the answer; if a typed one is wanted, the text counts when it is one JSON object that fits |
| text that is a call written as text | a correction, if there are tools; the second time the answer, with a note |
| text, cut off at the output limit | the answer as far as it goes, with a note |
| a refusal, streamed or not | the answer, with a note |
| text that a content filter cut off | the answer as far as it goes, with a note |
| nothing, blanks, or thinking alone | a correction; the second time `EmptyAnswer` |
| a call that the provider could not read | a correction; the second time `EmptyAnswer` |
| nothing, cut off at the output limit | `OutputLimit` |
| nothing, by a content filter | `ContentFiltered` |
| text that the provider ended before its end | the answer as far as it goes, with a note |
| a stream that ended without its last event | a fault, `ModelUnavailable`: the request is repeated |
| another response with an unknown finish reason | what the parts say |
| `ask_user` that does not fit | a correction; the second time `MalformedAnswer` |
| a typed answer that does not fit | two corrections; the third time `MalformedAnswer` |
| `ask_user` or a typed answer that was cut off | two corrections; the third time `OutputLimit`, `ContentFiltered`, or `MalformedAnswer` |
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from pydantic_ai.messages import ModelResponse
from temporalio.exceptions import ApplicationError

from sojourn.contracts.awaits import AwaitClarification
from sojourn.contracts.message import Message, ToolCallPart
from sojourn.contracts.plan import PlanResult
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.payload.parse import ParseFault, parse_arguments
from sojourn.core.payload.reading import read_text
from sojourn.models.finish_reasons import finish_of, is_complete_json
from sojourn.models.names import CALL_TOOL, TARGETS, Names, one_object
from sojourn.models.offered import ASK_USER, FINAL_RESULT, Expected
from sojourn.models.result_text import result_text
from sojourn.values.json_value import is_array
from sojourn.values.text import count_noun

__all__ = ["Correction", "ModelReply", "is_call_as_text", "plan_of"]

_TYPED_CORRECTIONS = 2

_CUT_OFF = "the answer was cut off at the model's output limit"
_FILTERED = "the answer was cut off by the provider's content filter"
_REFUSED = "the model refused to answer"
_CALLED_TOO_LATE = (
    "the model called a tool in place of an answer, in the last turn, in which none can be called"
)

_MAX_READ = 20_000

_UNREADABLE_CALLS = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL")
"""Google's finish reasons for a call that it could not read, and leaves out of the response."""


@dataclass(frozen=True)
class ModelReply:
    message: Message
    finish: str | None
    refusal: str | None = None
    """The refusal, if the provider reports it apart from the text."""
    provider_finish: str | None = None
    output_limit: int | None = None

    @classmethod
    def of(cls, response: ModelResponse, message: Message, max_tokens: int | None) -> "ModelReply":
        details = response.provider_details or {}
        given = details.get("finish_reason")
        word = given if isinstance(given, str) else None
        return cls(
            message,
            finish_of(response.finish_reason, word),
            details.get("refusal"),
            word,
            max_tokens or response.usage.output_tokens or None,
        )


@dataclass(frozen=True)
class Correction:
    """A request to the model to replace a response that cannot be used."""

    code: str
    """The run's error code if the next response cannot be used either."""
    text: str
    answers: dict[str, str] = field(default_factory=dict[str, str])
    why: str = ""
    """The fault, for people; `text` if empty."""
    most: int = 1
    """Corrections of one plan up to which this one is still made."""
    needs_room: bool = False
    """Whether the next response gets a higher output limit."""
    otherwise: PlanResult | None = None
    """The plan if no correction is left, or None to fail the run."""


def plan_of(
    reply: ModelReply,
    names: Names,
    *,
    expected: Expected | None,
    may_ask: bool,
    may_call: bool = False,
    is_last: bool = False,
) -> PlanResult | Correction:
    """Return the plan for a response, or its correction, by the table above.

    Raises:
        ApplicationError: `OutputLimit` or `ContentFiltered`, which no correction repairs.
    """
    calls = reply.message.tool_calls
    by_name = {call.name: call for call in reversed(calls)}
    if expected and FINAL_RESULT in by_name:
        return _read_typed_call(reply, by_name[FINAL_RESULT], expected, names)
    if calls and is_last:
        return _too_late(reply, expected)
    if may_ask and ASK_USER in by_name:
        return _question(reply, by_name[ASK_USER], names)
    if CALL_TOOL in by_name and names.has_deferred and _why_cut(reply) is None:
        return _nameless(reply, by_name[CALL_TOOL])
    if calls:
        return _calls(reply)
    if reply.refusal:
        return PlanResult(final_response=Message.assistant(reply.refusal), notes=[_REFUSED])
    if not reply.message.text.strip():
        return _empty(reply)
    if expected:
        return _read_typed_text(reply, expected, names)
    plan = PlanResult(final_response=reply.message, notes=_notes(reply))
    if not is_call_as_text(reply.message.text):
        return plan
    noted = plan.model_copy(update={"notes": [*plan.notes, _WRITTEN_CALL]})
    return Correction("EmptyAnswer", _CALL_BY_TOOL, otherwise=noted) if may_call else noted


def _calls(reply: ModelReply) -> PlanResult:
    """Return the calls as a plan, without the last one if it was cut off."""
    calls, why = reply.message.tool_calls, _why_cut(reply)
    requests = [call.request for call in calls]
    if why is None:
        return PlanResult(tool_calls=requests, message=reply.message)
    advice = _ADVICE.get(reply.finish or "error", "")
    return PlanResult(
        tool_calls=requests,
        message=reply.message,
        unfinished=f"Your response {why}, in this call, which was not executed. {advice}",
        notes=[f"the model's response {why}: the call of {calls[-1].name} was not executed"],
    )


def _nameless(reply: ModelReply, call: ToolCallPart) -> Correction:
    """Return the correction of a `call_tool` without name or arguments."""
    read = _arguments(call)
    lacks = "the name of a tool"
    if not isinstance(read, str) and any(isinstance(read.get(each), str) for each in TARGETS):
        lacks = "the arguments of the tool, `{}` if there are none"
    text = read if isinstance(read, str) else f"`{CALL_TOOL}` was not given {lacks}."
    text = (
        f'{text} It takes {{"name": "...", "arguments": {{...}}}}: the name of a tool that was found, and the '
        "arguments of that tool as one object."
    )
    return Correction("MalformedAnswer", text, _answer_calls(reply, call, text), otherwise=_calls(reply))


def _too_late(reply: ModelReply, expected: Expected | None) -> Correction:
    """Return the correction of calls in the last turn."""
    how = f"Give your answer by calling `{FINAL_RESULT}`" if expected else "Answer in words"
    text = f"Not executed: no tool can be called any more, since the run ends with this answer. {how}, with what you know."
    plan = None
    if reply.message.text.strip() and expected is None:
        plan = PlanResult(final_response=Message.assistant(reply.message.text), notes=[_CALLED_TOO_LATE])
    answers = {call.tool_call_id: text for call in reply.message.tool_calls}
    return Correction("EmptyAnswer", text, answers, why=_CALLED_TOO_LATE, otherwise=plan)


def _why_cut(reply: ModelReply) -> str | None:
    """Return what ended a response before its end, as a clause, or None."""
    if reply.finish == "content_filter":
        return "was stopped by the provider's content filter"
    if reply.finish == "error":
        return f"was ended by the provider before it was complete{_in_words(reply)}"
    if reply.finish is None and _is_unfinished(reply):
        return "ended before it was complete"
    if reply.finish != "length":
        return None
    if reply.provider_finish == "model_context_window_exceeded":
        return "was cut off, because the context window is full"
    limit = f" of {count_noun(reply.output_limit, 'token')}" if reply.output_limit else ""
    return f"was cut off at the output limit{limit}"


def _in_words(reply: ModelReply) -> str:
    return f" ({reply.provider_finish})" if reply.provider_finish else ""


def _is_unfinished(reply: ModelReply) -> bool:
    """Return whether the last call's arguments are not whole."""
    calls = reply.message.tool_calls
    if not calls or calls[-1].raw is None or reply.provider_finish is None:
        return False
    return not is_complete_json(calls[-1].raw)


_ADVICE = {
    "length": "Write in smaller pieces: send less in one call, and the rest in further calls.",
    "content_filter": "Send something else, or go on without it.",
    "error": "Make the call again.",
}

_CALL_BY_TOOL = (
    "Your answer looks like a call of a tool, written as text, which calls nothing. To call a tool, call it as a tool; "
    "otherwise answer in words."
)

_WRITTEN_CALL = "the answer looks like a call of a tool written as text; perhaps the model's server has no tool parser for it"

_CALL_AS_TEXT = re.compile(
    r"""^[ \t]*+(?:<tool_call>|<tool_response>|\[TOOL_CALLS\]|<function=|<\|python_tag\|>)"""
    r"""|\A\s*+(?:```\w*\s*+)?\[?\s*+\{\s*+"(?:name|tool|function)"\s*+:\s*+"[^"]*+"""
    r"""(?:"\s*+,\s*+"(?:arguments|parameters|args|input)"\s*+:|\Z)""",
    re.MULTILINE,
)


def is_call_as_text(text: str) -> bool:
    """Return whether a text is a tool call in the notation of some model."""
    return _CALL_AS_TEXT.search(text[:_MAX_READ]) is not None


def _notes(reply: ModelReply) -> list[str]:
    if reply.finish == "length":
        return [_CUT_OFF]
    if reply.finish == "error":
        return [f"the answer was ended by the provider before it was complete{_in_words(reply)}"]
    return [_FILTERED] if reply.finish == "content_filter" else []


def _empty(reply: ModelReply) -> Correction:
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
    if reply.provider_finish in _UNREADABLE_CALLS:
        return Correction(
            "EmptyAnswer",
            f"Your call of a tool could not be read ({reply.provider_finish}), and nothing was called. Call a tool that you "
            "are offered, by its exact name, with one JSON object as its arguments; send less at once if it is long.",
        )
    return Correction("EmptyAnswer", "Your response was empty. Answer, or call a tool.")


# The typed answer.


def _read_typed_call(
    reply: ModelReply, call: ToolCallPart, expected: Expected, names: Names
) -> PlanResult | Correction:
    if cut := _cut_off(reply, call):
        return cut
    payload = _arguments(call)
    if isinstance(payload, str):
        return _correct_typed_call(reply, call, payload)
    payload = expected.read(payload)
    mismatch = expected.mismatch(payload)
    if mismatch is not None:
        return _correct_typed_call(reply, call, *_texts(mismatch, names))
    others = len(reply.message.tool_calls) - 1
    notes = (
        [f"{count_noun(others, 'call')} beside the answer {'was' if others == 1 else 'were'} not made"]
        if others
        else []
    )
    return _answer(reply, expected.value(payload), notes)


def _correct_typed_call(reply: ModelReply, call: ToolCallPart, text: str, why: str = "") -> Correction:
    return Correction(
        "MalformedAnswer", text, _answer_calls(reply, call, text), why=why, most=_TYPED_CORRECTIONS
    )


def _texts(mismatch: ToolResult, names: Names) -> tuple[str, str]:
    """Return the texts of a refused answer, for the model and for people."""
    return result_text(names.in_result(mismatch), names), str(mismatch.error)


def _read_typed_text(reply: ModelReply, expected: Expected, names: Names) -> PlanResult | Correction:
    if cut := _cut_off(reply):
        return cut
    read = parse_arguments(reply.message.text)
    if isinstance(read, ParseFault):
        text = f"Give your answer by calling `{FINAL_RESULT}`."
        return Correction("MalformedAnswer", text, most=_TYPED_CORRECTIONS)
    own = one_object(expected.projection.keys.to_tool(read.payload))
    if isinstance(own, str):
        return Correction("MalformedAnswer", "Give each field of your answer once.", most=_TYPED_CORRECTIONS)
    payload = expected.read(own)
    mismatch = expected.mismatch(payload)
    if mismatch is not None:
        text, why = _texts(mismatch, names)
        return Correction("MalformedAnswer", text, why=why, most=_TYPED_CORRECTIONS)
    return _answer(reply, expected.value(payload), [])


def _cut_off(reply: ModelReply, call: ToolCallPart | None = None) -> Correction | None:
    """Return the correction of a typed answer or question that was cut off, or None."""
    why = _why_cut(reply)
    if why is None:
        return None
    is_long = reply.finish == "length"
    text = f"Your response {why}, so that the answer in it does not count. " + (
        "Give it again, and shorter." if is_long else "Give another one."
    )
    codes = {"length": "OutputLimit", "content_filter": "ContentFiltered"}
    return Correction(
        codes.get(reply.finish or "", "MalformedAnswer"),
        text,
        _answer_calls(reply, call, text) if call else {},
        most=_TYPED_CORRECTIONS,
        needs_room=is_long,
    )


def _answer(reply: ModelReply, value: Any, notes: list[str]) -> PlanResult:
    text = reply.message.text.strip() or json.dumps(value, ensure_ascii=False)
    return PlanResult(final_response=Message.assistant(text), result=value, notes=notes)


# The question.


def _question(reply: ModelReply, call: ToolCallPart, names: Names) -> PlanResult | Correction:
    if call is reply.message.tool_calls[-1] and (cut := _cut_off(reply, call)):
        return cut
    payload = _arguments(call)
    if isinstance(payload, str):
        return Correction("MalformedAnswer", payload, _answer_calls(reply, call, payload))
    question, tool = payload.get("question"), payload.get("tool")
    if not isinstance(question, str) or not question.strip():
        text = f"`{ASK_USER}` takes a `question`, a text that says what to ask."
        return Correction("MalformedAnswer", text, _answer_calls(reply, call, text))
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
    return [name[:200] for name in value[:50] if isinstance(name, str)] if is_array(value) else []


def _arguments(call: ToolCallPart) -> dict[str, Any] | str:
    if call.raw is None:
        return call.payload
    read = read_text(call.raw)
    if isinstance(read, ParseFault):
        return (
            f"The arguments of `{call.name}` cannot be read: {read.message}. Send one complete JSON object."
        )
    return read.payload


def _answer_calls(reply: ModelReply, wrong: ToolCallPart, text: str) -> dict[str, str]:
    others = f"not executed: the call of `{wrong.name}` in the same response was not valid"
    return {call.tool_call_id: text if call is wrong else others for call in reply.message.tool_calls}

"""Check a plan's shape and size, and decide which calls are carried out."""

from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from sojourn.contracts.awaits import AwaitClarification, AwaitExternalTools, PlannerQuestion, PlannerWait
from sojourn.contracts.dispatch import Dispatch
from sojourn.contracts.message import Message, ToolCallPart
from sojourn.contracts.plan import PlanResult
from sojourn.contracts.run_policy import Caps, Limits
from sojourn.contracts.tasks import PlanOutcome
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.payload.memory import patch_fault
from sojourn.values.json_fault import ParseFault, json_fault, wrong_figure
from sojourn.values.text import count_noun
from sojourn.values.timers import LONGEST
from sojourn.values.wire import (
    MAX_PAYLOAD_BYTES,
    MAX_PLAN_BYTES,
    MAX_PLAN_CALLS,
    MAX_STEP_BYTES,
    encode_readable,
    size_of,
)

__all__ = [
    "MAX_WAIT",
    "Admission",
    "admit",
    "fault_of",
    "fit_plan_bytes",
    "not_executed",
    "payload_fault",
    "trim_plan",
    "with_readings",
    "without_payload",
    "without_payloads",
    "write_readings",
]

MAX_WAIT = LONGEST
"""Longest wait; a longer one is a mistake, and Temporal refuses very long timers."""

MAX_QUESTION_CHARS = 8_000
"""Longest question with its other texts, in characters."""

MAX_QUESTION_FIELDS = 50

_VARIANTS = {
    "tool_calls": "tool_calls",
    "final_response": "final_response",
    "await_": "await",
    "wait_": "wait",
    "failure": "failure",
}

_ENDS = ("final_response", "failure")


def fault_of(plan: Any, *, interrupts_allowed: bool, final_turn: bool) -> str | None:
    """Return why a planner's result is refused, or None.

    The sentence says what to return instead. Exactly one of the five variants is legal. In the final
    turn only a response or a failure is. A question needs `interrupts_allowed` (SR-74).
    """
    if not isinstance(plan, PlanResult):
        return f"a planner returns a PlanResult, not {type(plan).__name__}"
    variants = [wire for name, wire in _VARIANTS.items() if getattr(plan, name)]
    if len(variants) != 1:
        names = " and ".join(variants) or "nothing"
        return f"a plan holds exactly one of {', '.join(_VARIANTS.values())}; this one holds {names}"
    if final_turn and variants[0] not in _ENDS:
        return f"this turn may only answer: return final_response, not {variants[0]}"
    if plan.await_ and not interrupts_allowed:
        return (
            "this agent may not ask: its policy has interrupts_allowed=False; answer or call a tool instead"
        )
    if plan.await_ and (fault := _wait_fault(plan.await_)):
        return fault
    if plan.final_response and plan.final_response.role != "assistant":
        return f"final_response has role 'assistant', not {plan.final_response.role[:40]!r}"
    if plan.wait_ and not timedelta(0) < plan.wait_ <= MAX_WAIT:
        return f"wait is longer than zero and at most {MAX_WAIT.days} days"
    return patch_fault(plan.memory) or _usage_fault(plan) or _call_fault(plan)


def _usage_fault(plan: PlanResult) -> str | None:
    used = plan.usage
    if used is None:
        return None
    return wrong_figure(
        (f"usage.{name}", getattr(used, name))
        for name in ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "cost")
    )


def _wait_fault(wait: PlannerWait) -> str | None:
    match wait:
        case AwaitClarification():
            return _question_fault(wait)
        case AwaitExternalTools():
            empty = "await names at least one call that a program outside executes"
            return None if wait.items else empty


def _question_fault(question: AwaitClarification) -> str | None:
    texts = [question.question, question.clarifying_prompt or "", *question.missing_fields]
    if sum(map(len, texts)) > MAX_QUESTION_CHARS or len(question.missing_fields) > MAX_QUESTION_FIELDS:
        return f"a question has at most {MAX_QUESTION_CHARS:,} characters in all and {MAX_QUESTION_FIELDS} fields"
    return None


def _call_fault(plan: PlanResult) -> str | None:
    external = plan.await_.items if isinstance(plan.await_, AwaitExternalTools) else []
    if len(plan.tool_calls) + len(external) > MAX_PLAN_CALLS:
        return f"a plan holds at most {MAX_PLAN_CALLS:,} calls; this one holds {len(plan.tool_calls) + len(external):,}"
    ids = Counter(call.tool_call_id for call in [*plan.tool_calls, *external] if call.tool_call_id)
    twice = [call_id for call_id, count in ids.items() if count > 1]
    if twice:
        return f"tool_call_ids are unique; this plan repeats {', '.join(name[:80] for name in twice[:3])!r}"
    if plan.message and plan.message.role != "assistant":
        return f"message has role 'assistant', not {plan.message.role[:40]!r}"
    if plan.message and isinstance(plan.await_, PlannerQuestion):
        return _asking_fault(plan.message, plan.await_.tool_call_id)
    if plan.message and sorted(c.tool_call_id for c in plan.message.tool_calls) != sorted(
        call.tool_call_id for call in [*plan.tool_calls, *external]
    ):
        return "message asks for the same calls as tool_calls, with the same ids"
    return None


def _asking_fault(message: Message, asking: str | None) -> str | None:
    ids = [call.tool_call_id for call in message.tool_calls]
    if len(set(ids)) < len(ids):
        return "tool_call_ids are unique; the message with await repeats one"
    if (ids or asking) and asking not in ids:
        return "the message with await holds the call with which it asks, named by await.tool_call_id"
    return None


@dataclass(frozen=True, slots=True)
class Admission:
    """The number of calls of a plan that run, and the limit that stops the rest.

    The first `count` calls run.
    """

    count: int
    refused: str | None


def admit(calls: Sequence[ToolRequest], caps: Caps, limits: Limits) -> Admission:
    """Admit a plan's calls, in order, as far as the caps and limits allow."""
    bounds = [(limits.max_calls_per_step, "max_calls_per_step")]
    if caps.tool_calls is not None:
        bounds.append((caps.tool_calls, "max_tool_calls"))
    if caps.rounds is not None and caps.rounds <= 0:
        bounds.append((0, "max_tool_rounds"))
    count, refused = min(bounds, key=lambda bound: bound[0])
    within = _within_bytes(calls[:count])
    if within < min(count, len(calls)):
        return Admission(within, "plan_size")
    return Admission(len(calls), None) if len(calls) <= count else Admission(count, refused)


def _within_bytes(calls: Sequence[ToolRequest]) -> int:
    if len(calls) * MAX_PAYLOAD_BYTES <= MAX_STEP_BYTES:
        return len(calls)  # the boundary has found each payload to fit by itself
    total = 0
    for index, call in enumerate(calls):
        total += size_of(call)
        if total > MAX_STEP_BYTES:
            return index
    return len(calls)


_WHY = {
    "max_calls_per_step": "one plan may execute at most {limit}; ask for the rest in the next",
    "max_tool_calls": "the run's tool calls are used up",
    "max_tokens": "no tokens are left for another agent",
    "max_cost": "no money is left for another agent",
    "max_tool_rounds": "the maximum tool depth of this turn was exceeded",
    "history": "the run has gone on for as long as one can",
    "plan_bytes": f"one plan's calls, with the messages to other agents, are together at most {MAX_PLAN_BYTES:,} bytes; "
    "ask for fewer, or for less",
    "plan_size": f"the arguments of one plan's calls are together at most {MAX_STEP_BYTES:,} bytes; ask for fewer",
}


def not_executed(call: ToolRequest, refused: str | None, limits: Limits) -> ToolResult:
    """Return the result of a call that a limit stopped before it ran."""
    why = _WHY.get(refused or "", "a limit of the run was reached").format(
        limit=count_noun(limits.max_calls_per_step, "call")
    )
    return ToolResult(
        name=call.name,
        tool_call_id=call.tool_call_id,
        error=ToolError(message=f"not executed: {why}", code="not_executed"),
    )


_Call = TypeVar("_Call", ToolRequest, ToolCallPart)

_MAX_NOTES = 20
_MAX_NOTE_CHARS = 2_000
_ENVELOPE = 100_000
"""Bytes reserved for a plan's notes, decision and answers, in addition to its calls."""


def payload_fault(call: ToolRequest) -> ParseFault | None:
    """Return why a call's arguments cannot be recorded, or None.

    They may be over 512 KB, too deep, or no JSON.
    """
    fault = json_fault(call.payload, max_bytes=None) or json_fault(call.raw, max_bytes=None)
    if fault is None and size_of(call) > MAX_PAYLOAD_BYTES:
        return ParseFault("too_large", f"the arguments are larger than {MAX_PAYLOAD_BYTES:,} bytes")
    return fault


def without_payload(call: _Call) -> _Call:
    """Return the call with `{omitted, bytes}` in place of its arguments.

    This is for arguments that are not executed. `bytes` is missing if they are no JSON.
    """
    omitted: dict[str, Any] = {"omitted": True}
    with suppress(ValueError):
        omitted["bytes"] = size_of(call.payload) + len((call.raw or "").encode(errors="replace"))
    return call.model_copy(update={"payload": omitted, "raw": None, "readings": [], "written": None})


def without_payloads(message: Message | None, omitted: Collection[str]) -> Message | None:
    """Return the model's message without the arguments of these calls."""
    if message is None or not omitted:
        return message
    parts: list[Any] = [
        without_payload(part) if isinstance(part, ToolCallPart) and part.tool_call_id in omitted else part
        for part in message.parts
    ]
    return message.model_copy(update={"parts": parts})


def fit_plan_bytes(
    calls: Sequence[ToolRequest], dispatches: Sequence[Dispatch], limits: Limits
) -> list[Dispatch]:
    """Return the dispatches that fit into the plan.

    A call whose messages or changed payload do not fit is not executed. A result that does not fit
    loses its hint.
    """
    kept = list(dispatches)
    added = [n for n, made in enumerate(kept) if made.messages or made.payload is not None or made.result]
    left = MAX_PLAN_BYTES - _ENVELOPE - (size_of(calls) if added else 0)
    for index in added:
        size = size_of(kept[index])
        if size <= left:
            left -= size
        elif (result := kept[index].result) is not None:
            kept[index] = Dispatch(kind="answered", result=result.model_copy(update={"retry_hint": None}))
        else:
            refused = not_executed(calls[index], "plan_bytes", limits)
            kept[index] = Dispatch(kind="answered", result=refused)
    return kept


def trim_plan(outcome: PlanOutcome) -> PlanOutcome:
    """Return the plan within 1.5 MB, or a planner fault that says why it does not fit.

    Calls that a limit refused lose their arguments first; then the model's message is left out,
    and later made from the calls.
    """
    if outcome.notes:
        notes = [note[:_MAX_NOTE_CHARS] for note in outcome.notes[:_MAX_NOTES]]
        outcome = outcome.model_copy(update={"notes": notes})
    try:
        size = len(encode_readable(outcome))
        if size <= MAX_PLAN_BYTES:
            return outcome
        executed = len(outcome.dispatches)
        calls = [
            *outcome.calls[:executed],
            *(without_payload(call) for call in outcome.calls[executed:]),
        ]
        smaller = outcome.model_copy(update={"calls": calls, "message": None if calls else outcome.message})
        if size_of(smaller) <= MAX_PLAN_BYTES:
            return smaller
    except (ValueError, TypeError) as error:
        return PlanOutcome(fault=f"the plan cannot be written as JSON: {str(error)[:300]}")
    return PlanOutcome(
        fault=f"the plan is {size:,} bytes as JSON, at most {MAX_PLAN_BYTES:,} can be carried; "
        "answer more briefly, or ask for fewer or smaller calls"
    )


def with_readings(
    asked: Sequence[ToolRequest], read: Sequence[ToolRequest | ParseFault]
) -> list[ToolRequest]:
    """Return the calls of a plan, those with readings as they were read."""
    return [
        found if isinstance(found, ToolRequest) and found.readings else call
        for call, found in zip(asked, read, strict=True)
    ]


def write_readings(message: Message | None, calls: Sequence[ToolRequest]) -> Message | None:
    """Return the model's message with the arguments as they were read."""
    read = {call.tool_call_id: call for call in calls if call.readings}
    if message is None or not read:
        return message
    parts = [
        part.as_read(read[part.tool_call_id])
        if isinstance(part, ToolCallPart) and part.tool_call_id in read
        else part
        for part in message.parts
    ]
    return message.model_copy(update={"parts": parts})

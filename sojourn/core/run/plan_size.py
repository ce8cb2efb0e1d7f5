"""Keep a plan's result within Temporal's limits: shrink calls that are not executed, refuse what is still too large."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from sojourn.contracts.dispatch import Dispatch
from sojourn.contracts.message import Message, ToolCallPart
from sojourn.contracts.run_policy import Limits
from sojourn.contracts.tasks import PlanOutcome
from sojourn.contracts.tool_call import ToolRequest
from sojourn.core.run.admission import not_executed
from sojourn.core.values.json_fault import ParseFault, json_fault
from sojourn.core.values.sizes import MAX_PAYLOAD_BYTES, MAX_PLAN_BYTES
from sojourn.core.values.wire import encode_readable, size_of

__all__ = ["payload_fault", "trimmed", "within_plan_bytes", "without_payload", "without_payloads"]

_Call = TypeVar("_Call", ToolRequest, ToolCallPart)

_MAX_NOTES = 20
_MAX_NOTE_CHARS = 2_000
_ENVELOPE = 100_000
"""Bytes reserved for a plan's notes, decision and answers, in addition to its calls."""


def payload_fault(call: ToolRequest) -> ParseFault | None:
    """Why a call's arguments cannot be recorded (over 512 KB, too deep, no JSON), or None."""
    fault = json_fault(call.payload, max_bytes=None) or json_fault(call.raw, max_bytes=None)
    if fault is None and size_of(call) > MAX_PAYLOAD_BYTES:
        return ParseFault("too_large", f"the arguments are larger than {MAX_PAYLOAD_BYTES:,} bytes")
    return fault


def without_payload(call: _Call) -> _Call:
    """The call with `{omitted, bytes}` in place of arguments that are not executed; without `bytes` when they are no JSON."""
    omitted: dict[str, Any] = {"omitted": True}
    with suppress(ValueError):
        omitted["bytes"] = size_of(call.payload) + len((call.raw or "").encode(errors="replace"))
    return call.model_copy(update={"payload": omitted, "raw": None, "readings": [], "written": None})


def without_payloads(message: Message | None, omitted: Collection[str]) -> Message | None:
    """The model's message without the arguments of these calls."""
    if message is None or not omitted:
        return message
    parts: list[Any] = [
        without_payload(part) if isinstance(part, ToolCallPart) and part.tool_call_id in omitted else part
        for part in message.parts
    ]
    return message.model_copy(update={"parts": parts})


def within_plan_bytes(
    calls: Sequence[ToolRequest], dispatches: Sequence[Dispatch], limits: Limits
) -> list[Dispatch]:
    """The dispatches that fit into the plan; a call whose messages or changed payload do not fit is not executed.

    A result that does not fit loses its hint.
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


def trimmed(outcome: PlanOutcome) -> PlanOutcome:
    """The plan within 1.5 MB, or a planner fault that says why it does not fit.

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

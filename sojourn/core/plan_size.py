"""Keep a plan's result within what Temporal carries: shrink what is not executed, refuse the rest."""

from sojourn.contracts.tasks import PlanOutcome
from sojourn.contracts.tool_call import ToolRequest
from sojourn.core.limits import MAX_PAYLOAD_BYTES, MAX_PLAN_BYTES
from sojourn.core.wire import encode, size_of

__all__ = ["MAX_NAME_CHARS", "is_oversized", "trimmed", "without_payload"]

MAX_NAME_CHARS = 200
"""A longer tool name is no tool's, and is cut."""

_MAX_NOTES = 20
_MAX_NOTE_CHARS = 2_000


def is_oversized(call: ToolRequest) -> bool:
    """Whether one call's arguments are over 512 KB."""
    return size_of(call) > MAX_PAYLOAD_BYTES


def without_payload(call: ToolRequest) -> ToolRequest:
    """The call with `{omitted, bytes}` for its arguments, which are not executed."""
    omitted = {"omitted": True, "bytes": size_of(call.payload) + len(call.raw or "")}
    return call.model_copy(update={"payload": omitted, "raw": None})


def trimmed(outcome: PlanOutcome) -> PlanOutcome:
    """The plan within 1.5 MB, or a planner fault that says why it cannot be.

    Calls that a limit refused lose their arguments first, then the model's own message is
    left to be made anew from the calls.
    """
    outcome = outcome.model_copy(
        update={"notes": [note[:_MAX_NOTE_CHARS] for note in outcome.notes[:_MAX_NOTES]]}
    )
    try:
        size = len(encode(outcome))
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

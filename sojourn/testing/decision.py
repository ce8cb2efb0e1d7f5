"""What a planner decided, as lines of JSON that a person can compare."""

import difflib
import json
from itertools import zip_longest
from typing import Any

from sojourn.contracts.dispatch import Dispatch
from sojourn.contracts.tasks import PlanOutcome
from sojourn.contracts.tool_call import ToolRequest

__all__ = ["difference"]

_SAME = {"final", "await_", "asked_by_policy", "external", "wait_", "wait_counts", "failure"}
_ALSO = {"decision", "notes", "refused", "result"}


def difference(recorded: PlanOutcome, present: PlanOutcome) -> str:
    """Return the unified diff of two decisions; empty where they are the same.

    Ids of calls and waits, tokens and cost are not part of a decision.
    """
    return "\n".join(
        difflib.unified_diff(_lines(recorded), _lines(present), "recorded", "now", n=30, lineterm="")
    )


def _lines(outcome: PlanOutcome) -> list[str]:
    decided: dict[str, Any] = outcome.model_dump(
        mode="json",
        include=_SAME | _ALSO,
        exclude={"await_": {"id", "tool_call_id", "closed"}, "external": {"id"}},
        exclude_defaults=True,
    )
    if outcome.await_ and outcome.await_.restrict_to_tool:
        decided["await"].pop("form", None)  # made from the tool's schema
    if outcome.fault:
        decided["fault"] = (
            outcome.fault_code or "the plan is refused"
        )  # the reason is in this library's own words
    if outcome.calls:
        decided["calls"] = [_call(*pair) for pair in zip_longest(outcome.calls, outcome.dispatches)]
    if outcome.message and outcome.message.text:
        decided["text"] = outcome.message.text
    return json.dumps(decided, indent=2, ensure_ascii=False, sort_keys=True).splitlines()


def _written(call: ToolRequest) -> Any:
    """The arguments as they were written: how they were read is no decision of the planner."""
    text = call.raw if call.written is None else call.written
    if text is None:
        return call.payload
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _call(call: ToolRequest, dispatch: Dispatch | None) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "tool": str(call.name),
        "payload": _written(call),
    }
    if dispatch and dispatch.confirm:
        shown["asks"] = dispatch.confirm.prompt or dispatch.confirm.title
    if dispatch and dispatch.result and dispatch.result.error:
        shown["answered"] = dispatch.result.error.code
    return shown

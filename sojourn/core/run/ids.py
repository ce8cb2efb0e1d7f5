"""Ids that a run derives, equal on every attempt."""

import hashlib
import re
from collections.abc import Collection, Sequence
from typing import Any

from sojourn.contracts.ids import CALL_ID
from sojourn.contracts.message import Message, ToolCallPart
from sojourn.contracts.plan import PlanResult
from sojourn.contracts.tool_call import ToolRequest

__all__ = [
    "artifact_ref",
    "assign_ids",
    "child_run_id",
    "default_name",
    "is_named",
    "is_step_id",
    "step_id",
    "turn_after",
    "write_final_ids",
]


def assign_ids(
    calls: Sequence[ToolRequest], *, run_id: str, turn_id: str, plan: int, taken: Collection[str]
) -> list[ToolRequest]:
    """Return the calls with their final ids.

    A planner's id stays if it is well-formed and new in the run. Otherwise an id is derived from run, turn,
    step and index (SR-66).
    """
    used = {*taken, *(call.tool_call_id for call in calls)}
    stamped: list[ToolRequest] = []
    for index, call in enumerate(calls):
        own_id = call.tool_call_id
        if own_id not in taken and CALL_ID.match(own_id):
            stamped.append(call)
        else:
            derived = _derive(f"{run_id}/{turn_id}/{plan}/{index}", used)
            used.add(derived)
            stamped.append(call.model_copy(update={"tool_call_id": derived}))
    return stamped


def write_final_ids(plan: PlanResult, calls: Sequence[ToolRequest]) -> Message | None:
    """Return the plan's assistant message with the final ids.

    None if the message can be made from the calls. A replaced id stays in the part's `provider_metadata`.
    """
    pairs = list(zip(plan.tool_calls, calls, strict=True))
    final = {
        planned.tool_call_id: call.tool_call_id
        for planned, call in pairs
        if planned.tool_call_id != call.tool_call_id
    }
    if not final or (plan.message is None and set(final) == {""}):
        return plan.message
    message = plan.message or Message.calls(plan.tool_calls)
    unnamed = iter([call.tool_call_id for planned, call in pairs if not planned.tool_call_id])
    parts: list[Any] = []
    for part in message.parts:
        if isinstance(part, ToolCallPart) and part.tool_call_id in final:
            own_id = part.tool_call_id
            changes: dict[str, Any] = {"tool_call_id": final[own_id] if own_id else next(unnamed)}
            if own_id:
                changes["provider_metadata"] = {
                    **(part.provider_metadata or {}),
                    "tool_call_id": own_id[:256],
                }
            parts.append(part.model_copy(update=changes))
        else:
            parts.append(part)
    return message.model_copy(update={"parts": parts})


def child_run_id(run_id: str, tool_call_id: str) -> str:
    """Return the id of a child run: `<parent run>/<tool_call_id>`.

    The parent's id is hashed if the whole exceeds 200 characters.
    """
    whole = f"{run_id}/{tool_call_id}"
    return whole if len(whole) <= 200 else f"{run_id[:60]}~{_digest(run_id)[:24]}/{tool_call_id}"


def is_below(child: str, run_id: str) -> bool:
    """Return whether an id can be that of a child run of a run, or of a run below one."""
    return child.startswith((f"{run_id}/", f"{run_id[:60]}~")) and "/" in child


def artifact_ref(run_id: str, tool_call_id: str, kind: str) -> str:
    return f"{run_id}#{tool_call_id}/{kind}"


def turn_after(first: str, turn: int) -> str:
    """Return the id of the nth user turn of a run.

    The ids are `t1`, `t2` and so on. If the client chose `first`, they are `<first>`, `<first>.2` and so
    on.
    """
    if not first:
        return f"t{turn}"
    return first if turn == 1 else f"{first}.{turn}"


def _derive(seed: str, used: Collection[str]) -> str:
    derived = f"call_{_digest(seed)[:12]}"
    return derived if derived not in used else _derive(derived, used)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


_STEP_ID = re.compile(r"[A-Za-z0-9_-]+-s[0-9a-f]{8}")
"""The id of a step; ids of earlier versions end otherwise."""

_MAX_NUMBERED = 300
"""Most calls of one tool that are known by their number."""


def is_step_id(call_id: str) -> bool:
    """Return whether an id may be that of a step.

    Ids from a flow of an earlier version are not.
    """
    return _STEP_ID.fullmatch(call_id) is not None


def default_name(tool: str, number: int) -> str:
    """Return the name of a step that its flow does not name: the tool's nth call."""
    return f"{tool}#{number}"


def step_id(name: str) -> str:
    """Return the id of a step, at most 54 characters.

    This leaves room for the number of a repair.
    """
    slug = re.sub(r"[^A-Za-z0-9_-]", "-", name.rsplit(".", 1)[-1])[:30]
    return f"{slug}-s{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def is_named(call_id: str, tool: str) -> bool:
    """Return whether an id is that of a step that its flow names itself."""
    if not is_step_id(call_id):
        return False
    defaults = (default_name(tool, number) for number in range(1, _MAX_NUMBERED + 1))
    return all(
        call_id not in (step_id(name), step_id(f"{name}~2"), step_id(f"{name}~3")) for name in defaults
    )

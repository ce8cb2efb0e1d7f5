"""Dispatch each admitted call: decide here, once, all that the workflow needs to carry it out."""

from collections.abc import Mapping
from datetime import timedelta

from sojourn.agent import ExportedTool
from sojourn.app import AnyTool
from sojourn.contracts.dispatch import ACTIVITY_ATTEMPTS, Dispatch
from sojourn.contracts.plan import RunContext
from sojourn.contracts.tasks import Limits
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.core import hints
from sojourn.core.boundary import Answer, checked, refusal
from sojourn.core.misfit import ParseFault

__all__ = ["SCHEDULE_TO_START", "dispatch"]

SCHEDULE_TO_START = timedelta(seconds=30)
"""How long a queue other than the run's own may leave a call lying: nobody serves it, then."""


def dispatch(
    call: ToolRequest,
    fault: ParseFault | None,
    tools: Mapping[str, AnyTool],
    run: RunContext,
    limits: Limits,
) -> Dispatch:
    """How the call is carried out: by an activity, by a child run, or answered here already.

    Unknown tools, arguments that cannot be recorded and agent tools with an invalid payload are answered; close
    names come only from the tools this agent is shown.
    """
    tool = tools.get(call.name)
    if tool is None:
        return _answered(call, hints.unknown_tool(call.name, list(tools)))
    if fault is not None:
        return _answered(call, hints.unparsable(tool.spec, fault))
    if isinstance(tool, ExportedTool):
        return _child(call, tool, run, limits)
    spec = tool.spec
    return Dispatch(
        task_queue=spec.task_queue,
        schedule_to_start=SCHEDULE_TO_START if spec.task_queue else None,
        timeout=spec.timeout or limits.tool_timeout,
        max_attempts=1 if spec.annotations.idempotent is False else ACTIVITY_ATTEMPTS,
    )


def _child(call: ToolRequest, tool: ExportedTool, run: RunContext, limits: Limits) -> Dispatch:
    if run.depth + 1 >= limits.max_depth:
        return _answered(call, hints.unavailable(call.name, f"agents nest at most {limits.max_depth} deep"))
    payload = checked(tool.spec, tool.validator, call)
    if isinstance(payload, ToolResult):
        return Dispatch(kind="answered", result=payload)
    try:
        messages = tool.messages(payload)
    except Exception as error:  # noqa: BLE001 - a prompt function is the author's code
        return _answered(call, (ToolError.from_error(error), None))
    return Dispatch(
        kind="child",
        task_queue=tool.spec.task_queue,
        agent_id=tool.agent.id,
        messages=messages,
    )


def _answered(call: ToolRequest, answer: Answer) -> Dispatch:
    return Dispatch(kind="answered", result=refusal(call, answer))

"""Dispatch each admitted call: decide here, once, all that the workflow needs to carry it out."""

from datetime import timedelta
from typing import Any

from pydantic import ValidationError

from sojourn.agent import ExportedTool
from sojourn.app import App
from sojourn.contracts.dispatch import ACTIVITY_ATTEMPTS, Dispatch
from sojourn.contracts.plan import RunContext
from sojourn.contracts.tasks import Limits
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.core import hints
from sojourn.core.boundary import Answer, checked, issues_of, refusal, refused
from sojourn.core.misfit import ParseFault

__all__ = ["SCHEDULE_TO_START", "dispatch"]

SCHEDULE_TO_START = timedelta(seconds=30)
"""How long a queue other than the run's own may leave a call lying: nobody serves it, then."""


def dispatch(
    call: ToolRequest,
    fault: ParseFault | None,
    app: App,
    run: RunContext,
    limits: Limits,
) -> Dispatch:
    """How the call is carried out: by an activity, by a child run, or answered here already.

    Unknown tools, arguments that cannot be recorded and agent tools with an invalid payload are answered; close
    names come only from the tools this agent is shown.
    """
    tools = app.tools_of(run.agent_id)
    tool = tools.get(call.name)
    if tool is None:
        why = app.why_unknown(run.agent_id, call.name)
        return _answered(
            call, hints.unavailable(call.name, why) if why else hints.unknown_tool(call.name, list(tools))
        )
    if fault is not None:
        return _answered(call, hints.unparsable(tool.spec, fault))
    if isinstance(tool, ExportedTool):
        return _child(call, tool, run, limits)
    spec = tool.spec
    return Dispatch(
        kind="local" if spec.local else "activity",
        task_queue=spec.task_queue,
        schedule_to_start=SCHEDULE_TO_START if spec.task_queue else None,
        timeout=spec.timeout or limits.tool_timeout,
        max_attempts=1 if spec.annotations.idempotent is False else ACTIVITY_ATTEMPTS,
    )


def _child(call: ToolRequest, tool: ExportedTool[..., Any], run: RunContext, limits: Limits) -> Dispatch:
    if run.depth + 1 >= limits.max_depth:
        return _answered(call, hints.unavailable(call.name, f"agents nest at most {limits.max_depth} deep"))
    above = [*run.callers, run.agent_id]
    if tool.agent.id in above:
        way = " > ".join([*above, tool.agent.id])
        return _answered(call, hints.unavailable(call.name, f"its agent is at work above this call ({way})"))
    payload = checked(tool.spec, tool.validator, call)
    if isinstance(payload, ToolResult):
        return Dispatch(kind="answered", result=payload)
    try:
        messages = tool.messages(payload, call.raw)
    except ValidationError as error:
        return Dispatch(
            kind="answered", result=refused(tool.spec, call, payload, issues_of(error), tool.validator)
        )
    except Exception as error:  # noqa: BLE001 - a prompt function is the author's code
        return _answered(call, (ToolError.from_error(error), None))
    return Dispatch(
        kind="child",
        task_queue=tool.spec.task_queue,
        agent_id=tool.agent.id,
        messages=messages,
        answer=tool.answer_schema,
    )


def _answered(call: ToolRequest, answer: Answer) -> Dispatch:
    return Dispatch(kind="answered", result=refusal(call, answer))

"""ExecuteToolActivity: one tool call across the boundary.

Size and depth, parse, validate once, decode, call, validate and encode the result, bounds, size.
A bad call is data: everything but a transient fault and a cancellation comes back as a
`ToolResult` (SR-51, SR-115, SR-133, SR-140).
"""

import asyncio
import contextvars
import functools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import structlog
from pydantic import ValidationError
from temporalio import activity
from temporalio.exceptions import ApplicationError

from sojourn.app import App
from sojourn.contracts.dispatch import NET
from sojourn.contracts.tasks import ToolTask
from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult, ToolTelemetry
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core import boundary, hints
from sojourn.errors import RateLimited, ToolFailed, ToolUnavailable
from sojourn.toolset import Tool

from .heartbeat import beating

__all__ = ["ExecuteToolActivity"]

LONGEST_RETRY = timedelta(seconds=30)
"""A longer `retry_after` is returned to the planner at once, which can do something else meanwhile."""

_log = structlog.get_logger("sojourn.tool")

SYNC_THREADS = 64
"""Sync tools running at once on one worker."""


class ExecuteToolActivity:
    """Executes tools of an app."""

    def __init__(self, app: App, *, threads: int = SYNC_THREADS) -> None:
        self._app = app
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="sojourn-tool")

    @activity.defn(name="ExecuteToolActivity")
    async def execute_tool(self, task: ToolTask) -> ToolResult:
        """Answer one call.

        Raises:
            ApplicationError: a transient fault that Temporal retries, within the tool's bound.
        """
        info = activity.info()
        call = ToolRequest(name=task.name, payload=task.payload, raw=task.raw, tool_call_id=info.activity_id)
        try:
            result = await self._across(task, call, info)
        except ApplicationError:
            raise
        except Exception as error:  # noqa: BLE001
            # A fault of the boundary itself, which a repetition would meet again: the run goes on, the log tells.
            _log.exception("tool_boundary_failed", tool=call.name, run_id=info.workflow_id)
            result = boundary.refusal(call, (ToolError.from_error(error), None))
        # The call stands beside the result in the history: its name and id are not written again.
        return result.model_copy(update={"name": "", "tool_call_id": ""})

    async def _across(self, task: ToolTask, call: ToolRequest, info: activity.Info) -> ToolResult:
        tools = self._app.tools_of(task.agent_id)
        tool = tools.get(task.name)
        if not isinstance(tool, Tool):
            return boundary.refusal(call, hints.unknown_tool(call.name, list(tools)))
        payload = boundary.checked(tool.spec, tool.validator, call)
        if isinstance(payload, ToolResult):
            return payload
        parsed = call if call.raw is None else call.model_copy(update={"payload": payload, "raw": None})
        meta = _meta(task, info, parsed)
        limit = (info.start_to_close_timeout or NET) - NET
        started = time.monotonic()
        with beating():
            result = await self._answer(tool, call, payload, meta, limit)
        spent = ToolTelemetry(duration_ms=round((time.monotonic() - started) * 1000), attempts=info.attempt)
        if result.telemetry or spent == ToolTelemetry():
            return result
        return result.model_copy(update={"telemetry": spent})

    async def _answer(
        self,
        tool: Tool[..., Any],
        call: ToolRequest,
        payload: dict[str, Any],
        meta: ToolCallMeta,
        limit: timedelta,
    ) -> ToolResult:
        try:
            arguments = tool.arguments(payload, meta)
        except ValidationError as error:
            return boundary.refused_by_model(tool.spec, tool.validator, call, payload, error)
        clock = asyncio.timeout(limit.total_seconds())
        try:
            async with clock:
                value = await self._run(tool, arguments)
        except TimeoutError as error:
            if not clock.expired():
                return boundary.refusal(call, (ToolError.from_error(error), None))
            return _timed_out(tool.spec, call, limit, meta.attempt)
        except (RateLimited, ToolUnavailable, ConnectionError) as error:
            return _transient(tool.spec, call, error, meta.attempt)
        except ToolFailed as error:
            hint = error.hint.model_copy(update={"tool": call.name}) if error.hint else None
            return boundary.refusal(call, (ToolError.from_error(error), hint))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a tool's fault is the planner's business
            return boundary.refusal(call, (ToolError.from_error(error), None))
        return boundary.delivered(tool.spec, call, value, tool.result.encode)

    async def _run(self, tool: Tool[..., Any], arguments: dict[str, Any]) -> Any:
        if tool.is_async:
            return await tool.function(**arguments)
        in_context: Callable[..., Any] = contextvars.copy_context().run
        call = functools.partial(in_context, functools.partial(tool.function, **arguments))
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)


def _meta(task: ToolTask, info: activity.Info, call: ToolRequest) -> ToolCallMeta:
    run_id = info.workflow_id or ""
    return ToolCallMeta(
        run_id=run_id,
        session_id=task.session_id,
        turn_id=task.turn_id,
        tool_call_id=call.tool_call_id,
        parent_tool_call_id=task.parent_tool_call_id,
        agent_id=task.agent_id,
        attempt=info.attempt,
        labels=task.labels,
        idempotency_key=ToolCallMeta.key_of(run_id, call),
    )


def _timed_out(spec: ToolSpec, call: ToolRequest, limit: timedelta, attempt: int) -> ToolResult:
    """A time-out is repeated only where twice is as once."""
    repeatable = spec.annotations.read_only or spec.annotations.idempotent
    if repeatable and attempt < spec.retry.max_attempts:
        raise ApplicationError(f"{spec.id} did not answer within {limit}", type="Timeout")
    return boundary.refusal(call, hints.timeout(call.name, limit))


def _transient(spec: ToolSpec, call: ToolRequest, error: Exception, attempt: int) -> ToolResult:
    """Retry a rate limit or an unavailable service a few times, then hand it to the planner with its hint."""
    after = getattr(error, "retry_after", None)
    may_retry = spec.annotations.idempotent is not False and attempt < spec.retry.max_attempts
    if may_retry and (after is None or after <= LONGEST_RETRY):
        delay = after or min(spec.retry.initial_interval * 2 ** (attempt - 1), LONGEST_RETRY)
        raise ApplicationError(str(error), type=type(error).__name__, next_retry_delay=delay) from error
    if isinstance(error, RateLimited):
        return boundary.refusal(call, hints.rate_limited(call.name, str(error), after))
    return boundary.refusal(call, hints.unavailable(call.name, str(error), after))

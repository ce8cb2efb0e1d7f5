"""Log each attempt of an activity as one line, with the ids of the run and call.

A success, and a failure by the planner's mistake, is logged at level debug: a worker with a thousand runs
writes nothing about those that go well. A failure that an operator can act on is logged at info, an attempt
that Temporal repeats at warning, and a failed plan that ends its run at error.
"""

import time
from typing import Any

import structlog
from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from sojourn.contracts.dispatch import NOT_LOCAL
from sojourn.contracts.tasks import PlanOutcome, PlanTask, ToolTask
from sojourn.contracts.tool_result import ToolResult
from sojourn.errors import SojournError
from sojourn.logs.temporal import mark_as_logged
from sojourn.logs.values import call_context, describe_error

__all__ = ["ActivityLogs"]

_FOR_OPERATORS = {"malformed_response", "rate_limited", "timeout", "tool_unavailable"}
"""Reasons of hints about failures that a corrected call does not repair."""

_EXPECTED = (SojournError, ConnectionError, TimeoutError, ApplicationError)
_log = structlog.get_logger("sojourn.activity")


class ActivityLogs(Interceptor):
    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _Inbound(next)


class _Inbound(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        info = activity.info()
        task = input.args[0] if input.args else None
        if not isinstance(task, (PlanTask, ToolTask)):
            return await super().execute_activity(input)
        with call_context(**_ids(info, task)):
            started = time.monotonic()
            try:
                answer = await super().execute_activity(input)
            except ApplicationError as error:
                _log_failure(task, info, error)
                # The original exception may hold anything, and is not needed beyond this line.
                error.__context__ = None
                raise
            _log_outcome(info, answer, round((time.monotonic() - started) * 1000))
            return answer


def _ids(info: activity.Info, task: PlanTask | ToolTask) -> dict[str, str]:
    ids = {
        "run_id": info.workflow_id or "",
        "session_id": task.session_id,
        "turn_id": task.turn_id,
        "agent_id": task.agent_id,
    }
    if isinstance(task, PlanTask):
        return {**ids, "plan": str(task.plan)}
    return {**ids, "tool_call_id": info.activity_id, "tool": task.name}


def _log_failure(task: PlanTask | ToolTask, info: activity.Info, error: ApplicationError) -> None:
    mark_as_logged(error)
    cause = error.__context__  # the original exception; `__cause__` is what Temporal records of it
    delay = error.next_retry_delay
    optional: dict[str, Any] = {
        "reason": error.message,
        "error": error.type,
        "attempt": info.attempt,
        "retry_in": delay.total_seconds() if delay and not error.non_retryable else None,
        "raised": describe_error(cause)
        if cause is not None and not issubclass(type(cause), _EXPECTED)
        else None,
    }
    fields = {name: value for name, value in optional.items() if value is not None}
    if isinstance(task, ToolTask):
        _log.warning("tool_retry", **fields)
    elif error.type == NOT_LOCAL:
        _log.debug("plan_not_local", **fields)
    elif error.non_retryable and not info.is_local:
        _log.error("plan_failed", **fields)
    else:
        _log.warning("plan_retry", **fields)


def _log_outcome(info: activity.Info, answer: Any, duration_ms: int) -> None:
    common = {"attempt": info.attempt, "duration_ms": duration_ms}
    if isinstance(answer, PlanOutcome):
        ended = {"final": True} if answer.final else {"fault": answer.fault} if answer.fault else {}
        _log.debug("plan", calls=len(answer.calls), **ended, **common)
    elif isinstance(answer, ToolResult):
        reason = answer.retry_hint.reason if answer.retry_hint else None
        if answer.error is None:
            _log.debug("tool_call", **common)
        elif reason in _FOR_OPERATORS:
            _log.info("tool_call_failed", reason=reason, error=answer.error.message, **common)
        else:
            _log.debug("tool_call_failed", reason=reason, code=answer.error.code, **common)

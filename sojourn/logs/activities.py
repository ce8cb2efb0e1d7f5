"""Activities in the log: the ids of the run and the call bound, one line for each end.

An end that is usual is logged at level debug: a worker that carries a thousand runs writes nothing
about those that go well. An end that an operator can act on is logged at info, a retry
at warning, the end of a run or a fault of Sojourn's own at error.
"""

import time
from typing import Any

import structlog
from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from sojourn.contracts.tasks import PlanOutcome, PlanTask, ToolTask
from sojourn.contracts.tool_result import ToolResult
from sojourn.errors import SojournError
from sojourn.logs.context import call_context
from sojourn.logs.exceptions import described
from sojourn.logs.temporal import mark_as_said

__all__ = ["ActivityLogs"]

_OPERATORS = {"malformed_response", "rate_limited", "timeout", "tool_unavailable"}
"""Reasons of a hint that no better call mends."""

_EXPECTED = (SojournError, ConnectionError, TimeoutError, ApplicationError)
"""Failures that need no traceback."""

_log = structlog.get_logger("sojourn.activity")


class ActivityLogs(Interceptor):
    """Binds the ids of every activity of a worker, and logs its end."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Stand before the activity."""
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
                _tell_failure(task, info, error)
                # Nobody else reads what was raised itself: it may be anything.
                error.__context__ = None
                raise
            _tell_end(info, answer, round((time.monotonic() - started) * 1000))
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


def _tell_failure(task: PlanTask | ToolTask, info: activity.Info, error: ApplicationError) -> None:
    mark_as_said(error)
    cause = error.__context__  # what was raised itself: the cause is what Temporal records of it
    delay = error.next_retry_delay
    beside: dict[str, Any] = {
        "reason": error.message,
        "error": error.type,
        "attempt": info.attempt,
        "retry_in": delay.total_seconds() if delay and not error.non_retryable else None,
        "raised": described(cause) if cause is not None and not issubclass(type(cause), _EXPECTED) else None,
    }
    fields = {name: value for name, value in beside.items() if value is not None}
    if isinstance(task, ToolTask):
        _log.warning("tool_retry", **fields)
    elif error.non_retryable:
        _log.error("plan_failed", **fields)
    else:
        _log.warning("plan_retry", **fields)


def _tell_end(info: activity.Info, answer: Any, duration_ms: int) -> None:
    beside = {"attempt": info.attempt, "duration_ms": duration_ms}
    if isinstance(answer, PlanOutcome):
        ended = {"final": True} if answer.final else {"fault": answer.fault} if answer.fault else {}
        _log.debug("plan", calls=len(answer.calls), **ended, **beside)
    elif isinstance(answer, ToolResult):
        reason = answer.retry_hint.reason if answer.retry_hint else None
        if answer.error is None:
            _log.debug("tool_call", **beside)
        elif reason in _OPERATORS:
            _log.info("tool_call_failed", reason=reason, error=answer.error.message, **beside)
        else:
            _log.debug("tool_call_failed", reason=reason, code=answer.error.code, **beside)

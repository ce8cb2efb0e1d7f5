"""The spans of a run and of calls that no worker executes, and their metrics.

All of this happens in workflow code. So nothing is recorded in a replay, or while a worker evicts a run
from its cache, and span ids are derived, so that any worker can end the span.
"""

import functools
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, ParamSpec

import structlog
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN, Span, SpanContext, get_current_span, set_span_in_context
from opentelemetry.trace.span import NonRecordingSpan
from temporalio import workflow
from temporalio.exceptions import ApplicationError, is_cancelled_exception

from sojourn.contracts.awaits import Await
from sojourn.contracts.dispatch import Dispatch
from sojourn.contracts.run import RunInput, RunOutput
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.telemetry import names
from sojourn.telemetry.names import AGENT, ERROR, KIND, OTHER, OUTCOME, TOOL, Attributes
from sojourn.telemetry.observer import Observer
from sojourn.telemetry.recorder import TelemetryRecorder, fail, span_id_of

__all__ = ["Observation"]

P = ParamSpec("P")

_log = structlog.get_logger("sojourn.telemetry")


def never_raises(report: Callable[P, None]) -> Callable[P, None]:
    """Log the exception of a report, which would fail the workflow task forever."""

    @functools.wraps(report)
    def report_safely(*args: P.args, **named: P.kwargs) -> None:
        try:
            report(*args, **named)
        except Exception as error:  # noqa: BLE001 - see above
            _log.warning("run_not_observed", report=report.__name__, error=type(error).__name__)

    return report_safely


class Observation(Observer):
    def __init__(self, recorder: TelemetryRecorder, context: Context) -> None:
        info = workflow.info()
        self._recorder = recorder
        self._instruments = recorder.instruments
        self._parent = context
        self._run_id = info.workflow_id
        self._execution = info.run_id
        self._started = self._began = info.start_time
        self._run = RunInput(agent_id="", messages=[])
        self._span: Span = INVALID_SPAN
        self._failed: dict[str, str] = {}
        self._waits: dict[str, tuple[str, datetime]] = {}
        self._children: dict[str, datetime] = {}
        self.context = context

    # The run.

    @never_raises
    def begins(self, run: RunInput, began: datetime | None = None) -> None:
        self._run, self._began = run, began or self._started
        if self._recorder.derives_ids:
            name = f"invoke_agent {names.short(run.agent_id)}" if run.agent_id else "invoke_agent"
            attributes = self._attributes("invoke_agent", run.turn_id)
            if run.parent:
                attributes[names.PARENT_CALL] = run.parent.parent_tool_call_id
            self._span = self._recorder.span_of(
                name, self._parent, attributes, _nanoseconds(self._started), self._execution
            )
            self.context = set_span_in_context(self._span, self._parent)
        if began is None and self._is_new("start"):
            self._instruments.runs_started.add(1, {AGENT: self._agent})

    @never_raises
    def report_completion(self, output: RunOutput) -> None:
        if self._is_new("end"):
            self._span.set_attribute(OUTCOME, output.reason)
            self._span.set_attribute("sojourn.tool_calls", output.tool_calls)
            self._ends("completed", {OUTCOME: output.reason})

    @never_raises
    def report_failure(self, error: BaseException) -> None:
        """End the span of a failed or canceled run, and count it.

        Any other error only fails the workflow task. A run that continues as new is not counted.
        """
        if isinstance(error, workflow.ContinueAsNewError):
            if self._is_new("end"):
                self._span.end(_nanoseconds(workflow.now()))
            return
        if not workflow.in_workflow() or not (
            is_cancelled_exception(error) or workflow.is_failure_exception(error)
        ):
            return
        if self._is_new("end"):
            status = "canceled" if is_cancelled_exception(error) else "failed"
            kind = error.type if isinstance(error, ApplicationError) else type(error).__name__
            reason = "canceled" if status == "canceled" else names.code(kind)
            fail(self._span, reason)
            self._ends(status, {ERROR: reason})

    def _ends(self, status: str, why: Attributes) -> None:
        self._span.end(_nanoseconds(workflow.now()))
        agent = {AGENT: self._agent}
        self._instruments.runs_ended.add(1, {**agent, "sojourn.run.status": status, **why})
        lasted = workflow.now() - self._began
        failed = {ERROR: why[ERROR]} if ERROR in why else {}
        self._instruments.run_duration.record(lasted.total_seconds(), {**agent, **failed})

    # Calls.

    def child_starts(self, call_id: str) -> Context:
        """Return the trace context for a child run, below its call's span."""
        self._children[call_id] = workflow.now()
        if not self._recorder.derives_ids:
            return self.context
        above = get_current_span(self.context).get_span_context()
        below = SpanContext(
            above.trace_id,
            span_id_of(self._execution, call_id),
            is_remote=False,
            trace_flags=above.trace_flags,
            trace_state=above.trace_state,
        )
        return set_span_in_context(NonRecordingSpan(below), self._parent)

    @never_raises
    def report_answer(
        self,
        call: ToolRequest,
        dispatch: Dispatch | None,
        result: ToolResult,
        *,
        turn_id: str,
        since: datetime,
        by_worker: bool,
    ) -> None:
        is_external = dispatch is not None and dispatch.kind == "external"
        reason = names.error_type(result, from_outside=is_external)
        is_known = names.is_known(dispatch, result)
        repaired = self._find_repair(call, result, reason)
        if not self._is_new("call", call.tool_call_id):
            return
        tool = {AGENT: self._agent, TOOL: call.name if is_known else OTHER}
        self._instruments.calls.add(1, tool)
        if reason:
            self._instruments.errors.add(1, {**tool, ERROR: reason})
        if repaired:
            self._instruments.repairs.add(1, {**tool, ERROR: repaired})
        if not by_worker and self._recorder.derives_ids:
            attributes = self._attributes("execute_tool", turn_id) | names.of_call(
                call.name,
                call.tool_call_id,
                self._run.parent.parent_tool_call_id if self._run.parent else None,
            )
            attributes[KIND] = dispatch.kind if dispatch else "refused"
            span = self._recorder.span_of(
                f"execute_tool {call.name}" if is_known else "execute_tool",
                self.context,
                attributes,
                _nanoseconds(self._children.get(call.tool_call_id, since)),
                self._execution,
                call.tool_call_id,
            )
            if reason:
                fail(span, reason)
            span.end(_nanoseconds(workflow.now()))

    def _find_repair(self, call: ToolRequest, result: ToolResult, reason: str | None) -> str | None:
        """Return the error with a hint that this successful call has repaired."""
        before = self._failed.pop(call.name, None)
        if reason is None:
            return before
        if result.retry_hint:
            self._failed[call.name] = reason
        return None

    # Waits.

    @never_raises
    def waits(self, open_waits: Mapping[str, Await]) -> None:
        for await_id, wait in open_waits.items():
            if await_id not in self._waits:
                self._waits[await_id] = (wait.metric_name, workflow.now())
                if self._is_new("await", await_id):
                    self._instruments.awaits.add(1, {AGENT: self._agent, KIND: wait.metric_name})
        for await_id in [known for known in self._waits if known not in open_waits]:
            kind, opened = self._waits.pop(await_id)
            if self._is_new("awaited", await_id):
                lasted = workflow.now() - opened
                self._instruments.await_duration.record(
                    lasted / timedelta(seconds=1), {AGENT: self._agent, KIND: kind}
                )

    # Common to all.

    @property
    def _agent(self) -> str:
        return names.short(self._run.agent_id) or OTHER

    def _attributes(self, operation: str, turn_id: str) -> Attributes:
        run = self._run
        return names.of_run(
            operation,
            agent_id=run.agent_id,
            run_id=self._run_id,
            session_id=run.session_id,
            turn_id=turn_id,
        )

    def _is_new(self, *what: Any) -> bool:
        return (
            workflow.in_workflow()
            and not workflow.unsafe.is_replaying()
            and self._recorder.is_first(self._execution, *what)
        )


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000) * 1_000

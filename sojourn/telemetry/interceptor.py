"""Record runs, plans and tools with interceptors of Temporal's client and worker.

Each attempt at a plan and each execution of a tool has a span. The span is current meanwhile, so the spans that
a tool or a planner makes are its children.
"""

import asyncio
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

from opentelemetry import context as current
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind
from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload
from temporalio.client import (
    Interceptor,
    OutboundInterceptor,
    StartWorkflowInput,
    StartWorkflowUpdateWithStartInput,
    UpdateWithStartStartWorkflowInput,
    WorkflowHandle,
    WorkflowUpdateHandle,
)
from temporalio.exceptions import ApplicationError
from temporalio.worker import (
    ActivityInboundInterceptor,
    ContinueAsNewInput,
    ExecuteActivityInput,
    ExecuteWorkflowInput,
    StartActivityInput,
    StartChildWorkflowInput,
    StartLocalActivityInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)
from temporalio.worker import Interceptor as WorkerInterceptor

from sojourn.contracts.plan import Usage
from sojourn.contracts.run import RunInput
from sojourn.contracts.tasks import PlanOutcome, PlanTask, ToolTask
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.wire_names import AGENT_RUN
from sojourn.telemetry import names
from sojourn.telemetry.names import AGENT, ATTEMPT, ERROR, OPERATION, OTHER, OUTCOME, TOOL, Attributes
from sojourn.telemetry.observation import Observation
from sojourn.telemetry.recorder import TelemetryRecorder, context_in, fail, with_context

__all__ = ["ActivityTelemetry", "TelemetryInterceptor"]


class TelemetryInterceptor(Interceptor, WorkerInterceptor):
    """Traces and metrics of runs, for a Temporal client and the workers made with it."""

    def __init__(self, recorder: TelemetryRecorder) -> None:
        self._recorder = recorder

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        return _ClientTelemetry(next, self._recorder)

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return ActivityTelemetry(next, self._recorder)

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: ARG002 - Temporal's signature
    ) -> type[WorkflowInboundInterceptor]:
        class Telemetry(_WorkflowTelemetry):
            _recorder = self._recorder

        return Telemetry


class _ClientTelemetry(OutboundInterceptor):
    """Records a span for the start of a run, a root or below the caller's span."""

    def __init__(self, next: OutboundInterceptor, recorder: TelemetryRecorder) -> None:
        super().__init__(next)
        self._recorder = recorder

    async def start_workflow(self, input: StartWorkflowInput) -> WorkflowHandle[Any, Any]:
        with self._starting(input):
            return await super().start_workflow(input)

    async def start_update_with_start_workflow(
        self, input: StartWorkflowUpdateWithStartInput
    ) -> WorkflowUpdateHandle[Any]:
        with self._starting(input.start_workflow_input):
            return await super().start_update_with_start_workflow(input)

    @contextmanager
    def _starting(self, input: StartWorkflowInput | UpdateWithStartStartWorkflowInput) -> Generator[None]:
        run = input.args[0] if input.args else None
        if not isinstance(run, RunInput):
            input.headers = with_context(input.headers, None)
            yield
            return
        attributes = names.of_run(
            "invoke_agent",
            agent_id=run.agent_id,
            run_id=input.id,
            session_id=run.session_id,
            turn_id=run.turn_id,
        )
        with self._recorder.tracer.start_as_current_span(
            f"invoke_agent {names.short(run.agent_id)}",
            kind=SpanKind.CLIENT,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            input.headers = with_context(input.headers, None)
            try:
                yield
            except Exception as error:
                fail(span, type(error).__name__)
                raise


class _WorkflowTelemetry(WorkflowInboundInterceptor):
    _recorder: TelemetryRecorder

    def __init__(self, next: WorkflowInboundInterceptor) -> None:
        super().__init__(next)
        self.observation: Observation | None = None
        self.above: Mapping[str, Payload] = {}
        """The context that the run was started in, for the next execution of its chain."""
        self.below: Mapping[str, Payload] = {}
        """The context of the run's span, for its activities and child workflows."""

    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        super().init(_Outbound(outbound, self))

    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
        parent = context_in(input.headers)
        self.above = self.below = with_context({}, parent)
        if workflow.info().workflow_type != AGENT_RUN:
            return await super().execute_workflow(input)
        self.observation = observation = Observation(self._recorder, parent)
        run: Any = workflow.instance()
        run.observe(observation)
        self.below = with_context({}, observation.context)
        try:
            output = await super().execute_workflow(input)
        except BaseException as error:
            observation.report_failure(error)
            raise
        observation.report_completion(output)
        return output


class _Outbound(WorkflowOutboundInterceptor):
    def __init__(self, next: WorkflowOutboundInterceptor, inbound: _WorkflowTelemetry) -> None:
        super().__init__(next)
        self._inbound = inbound

    def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:
        input.headers = {**input.headers, **self._inbound.below}
        return super().start_activity(input)

    def start_local_activity(self, input: StartLocalActivityInput) -> workflow.ActivityHandle[Any]:
        input.headers = {**input.headers, **self._inbound.below}
        return super().start_local_activity(input)

    async def start_child_workflow(
        self, input: StartChildWorkflowInput
    ) -> workflow.ChildWorkflowHandle[Any, Any]:
        run, observation = (input.args[0] if input.args else None), self._inbound.observation
        if observation and isinstance(run, RunInput) and run.parent:
            context = observation.child_starts(run.parent.parent_tool_call_id)
            input.headers = with_context(input.headers, context)
        else:
            input.headers = {**input.headers, **self._inbound.below}
        return await super().start_child_workflow(input)

    def continue_as_new(self, input: ContinueAsNewInput) -> NoReturn:
        input.headers = {**input.headers, **self._inbound.above}
        super().continue_as_new(input)


class ActivityTelemetry(ActivityInboundInterceptor):
    """Records plans and executions. Other activities only get the trace context."""

    def __init__(self, next: ActivityInboundInterceptor, recorder: TelemetryRecorder) -> None:
        super().__init__(next)
        self._recorder = recorder

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        context = context_in(input.headers)
        task = input.args[0] if input.args else None
        if isinstance(task, PlanTask):
            return await self._plan(input, task, context)
        if isinstance(task, ToolTask) and task.given is None:
            return await self._tool(input, task, context)
        token = current.attach(context)
        try:
            return await super().execute_activity(input)
        finally:
            current.detach(token)

    async def _plan(self, input: ExecuteActivityInput, task: PlanTask, context: Context) -> PlanOutcome:
        instruments, agent = self._recorder.instruments, names.short(task.agent_id)
        started, found = time.monotonic(), {AGENT: agent}
        attributes = _of_run("plan", task) | {"sojourn.plan": task.plan}
        with self._span(f"plan {agent}", context, attributes) as span:
            try:
                outcome: PlanOutcome = await super().execute_activity(input)
            except BaseException as error:
                found[ERROR] = _error_type(error)
                fail(span, found[ERROR])
                raise
            else:
                found[OUTCOME] = _outcome_of(outcome)
                span.set_attributes(_attributes_of(outcome, found[OUTCOME]))
                if outcome.fault is not None:
                    found[ERROR] = names.code(outcome.fault_code or "PlannerError")
                    fail(span, found[ERROR])
                if outcome.usage:
                    self._count_tokens(agent, outcome.usage)
                return outcome
            finally:
                instruments.plan_duration.record(time.monotonic() - started, found)

    async def _tool(self, input: ExecuteActivityInput, task: ToolTask, context: Context) -> ToolResult:
        info = activity.info()
        started = time.monotonic()
        found = {AGENT: names.short(task.agent_id), TOOL: names.short(task.name)}
        attributes = _of_run("execute_tool", task) | names.of_call(
            task.name, info.activity_id, task.parent_tool_call_id
        )
        with self._span(f"execute_tool {names.short(task.name)}", context, attributes) as span:
            try:
                result: ToolResult = await super().execute_activity(input)
            except BaseException as error:
                found[ERROR] = _error_type(error)
                fail(span, found[ERROR])
                raise
            else:
                if result.input_required:
                    span.set_attribute(OUTCOME, "input_required")
                if result.confirm:
                    span.set_attribute(OUTCOME, "asked_again")
                if reason := names.error_type(result):
                    found[ERROR] = reason
                    fail(span, reason)
                return result
            finally:
                self._recorder.instruments.tool_duration.record(time.monotonic() - started, found)

    @contextmanager
    def _span(self, name: str, context: Context, attributes: Attributes) -> Generator[Span]:
        """Make a span current for the block.

        The caller records an exception, without its text.
        """
        token = current.attach(context)
        try:
            with self._recorder.tracer.start_as_current_span(
                name, attributes=attributes, record_exception=False, set_status_on_exception=False
            ) as span:
                yield span
        finally:
            current.detach(token)

    def _count_tokens(self, agent: str, usage: Usage) -> None:
        found: Attributes = {AGENT: agent, OPERATION: "plan"}
        if usage.cache_write_tokens:
            found["gen_ai.usage.cache_creation.input_tokens"] = usage.cache_write_tokens
        if usage.model:
            found["gen_ai.response.model"] = names.short(usage.model)
        for kind, count in (("input", usage.input_tokens), ("output", usage.output_tokens)):
            self._recorder.instruments.tokens.record(count, {**found, "gen_ai.token.type": kind})


def _of_run(operation: str, task: PlanTask | ToolTask) -> Attributes:
    info = activity.info()
    return names.of_run(
        operation,
        agent_id=task.agent_id,
        run_id=info.workflow_id or "",
        session_id=task.session_id,
        turn_id=task.turn_id,
    ) | {ATTEMPT: info.attempt}


def _attributes_of(outcome: PlanOutcome, kind: str) -> Attributes:
    found: Attributes = {OUTCOME: kind}
    if outcome.calls:
        found["sojourn.calls"] = len(outcome.calls)
    usage = outcome.usage
    if usage:
        found["gen_ai.usage.input_tokens"] = usage.input_tokens
        found["gen_ai.usage.output_tokens"] = usage.output_tokens
        if usage.cached_tokens:
            found["gen_ai.usage.cache_read.input_tokens"] = usage.cached_tokens
        if usage.cache_write_tokens:
            found["gen_ai.usage.cache_creation.input_tokens"] = usage.cache_write_tokens
        if usage.model:
            found["gen_ai.response.model"] = names.short(usage.model)
        if usage.cost is not None:
            found["sojourn.cost"] = usage.cost
    return found


def _outcome_of(outcome: PlanOutcome) -> str:
    if outcome.fault is not None:
        return "fault"
    if outcome.calls:
        return "calls"
    if outcome.await_:
        return "await"
    if outcome.failure:
        return "failure"
    return "wait" if outcome.wait_ else "final" if outcome.final else OTHER


def _error_type(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError):
        return "canceled"
    return names.code(error.type if isinstance(error, ApplicationError) else type(error).__name__)

"""Record runs, plans and tools with interceptors of Temporal's client and worker."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

from opentelemetry.trace import SpanKind
from temporalio import workflow
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
from temporalio.worker import (
    ActivityInboundInterceptor,
    ContinueAsNewInput,
    ExecuteWorkflowInput,
    StartActivityInput,
    StartChildWorkflowInput,
    StartLocalActivityInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)
from temporalio.worker import Interceptor as WorkerInterceptor

from sojourn.contracts.run import RunInput
from sojourn.contracts.wire_names import AGENT_RUN
from sojourn.telemetry import names
from sojourn.telemetry.activities import ActivityTelemetry
from sojourn.telemetry.observation import Observation
from sojourn.telemetry.recorder import TelemetryRecorder, fail
from sojourn.telemetry.trace_context import context_in, with_context

__all__ = ["TelemetryInterceptor"]


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
            observation.failed(error)
            raise
        observation.completed(output)
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

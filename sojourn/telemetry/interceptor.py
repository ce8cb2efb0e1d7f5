"""TelemetryInterceptor: what Temporal's client and worker call on the way in and out."""

from typing import Any

from opentelemetry.trace import SpanKind
from temporalio.client import Interceptor, OutboundInterceptor, StartWorkflowInput, WorkflowHandle
from temporalio.worker import (
    ActivityInboundInterceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)
from temporalio.worker import Interceptor as WorkerInterceptor

from sojourn.contracts.run import RunInput
from sojourn.telemetry import names
from sojourn.telemetry.activities import ActivityTelemetry
from sojourn.telemetry.headers import with_context
from sojourn.telemetry.recorder import Recorder, fail
from sojourn.telemetry.workflows import workflow_telemetry

__all__ = ["TelemetryInterceptor"]


class TelemetryInterceptor(Interceptor, WorkerInterceptor):
    """Traces and metrics of runs, for a Temporal client and the workers made with it."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        """For what starts runs."""
        return _ClientTelemetry(next, self._recorder)

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """For plans and tools."""
        return ActivityTelemetry(next, self._recorder)

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: ARG002 - Temporal's signature
    ) -> type[WorkflowInboundInterceptor]:
        """For runs."""
        return workflow_telemetry(self._recorder)


class _ClientTelemetry(OutboundInterceptor):
    """A span for the start of a run, which is the root of its trace or a part of the caller's."""

    def __init__(self, next: OutboundInterceptor, recorder: Recorder) -> None:
        super().__init__(next)
        self._recorder = recorder

    async def start_workflow(self, input: StartWorkflowInput) -> WorkflowHandle[Any, Any]:
        run = input.args[0] if input.args else None
        if not isinstance(run, RunInput):
            input.headers = with_context(input.headers, None)
            return await super().start_workflow(input)
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
                return await super().start_workflow(input)
            except Exception as error:
                fail(span, type(error).__name__)
                raise

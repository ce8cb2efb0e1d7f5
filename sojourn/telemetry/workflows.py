"""Workflows: a run is observed, and its place in the trace goes along with what it starts."""

from collections.abc import Mapping
from typing import Any, NoReturn

from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.worker import (
    ContinueAsNewInput,
    ExecuteWorkflowInput,
    StartActivityInput,
    StartChildWorkflowInput,
    StartLocalActivityInput,
    WorkflowInboundInterceptor,
    WorkflowOutboundInterceptor,
)

from sojourn.contracts.run import RunInput
from sojourn.telemetry.headers import context_in, with_context
from sojourn.telemetry.observation import Observation
from sojourn.telemetry.recorder import Recorder

__all__ = ["workflow_telemetry"]


def workflow_telemetry(recorder: Recorder) -> type[WorkflowInboundInterceptor]:
    """The interceptor's class, which Temporal makes one of for each workflow."""

    class Telemetry(_Inbound):
        _recorder = recorder

    return Telemetry


class _Inbound(WorkflowInboundInterceptor):
    _recorder: Recorder

    def __init__(self, next: WorkflowInboundInterceptor) -> None:
        super().__init__(next)
        self.observation: Observation | None = None
        self.above: Mapping[str, Payload] = {}
        """The header of what comes beside the run: the next execution of its chain."""
        self.below: Mapping[str, Payload] = {}
        """The header of what the run starts, which is the same each time."""

    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        super().init(_Outbound(outbound, self))

    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
        parent = context_in(input.headers)
        self.above = self.below = with_context({}, parent)
        if workflow.info().workflow_type != "AgentRun":
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
    def __init__(self, next: WorkflowOutboundInterceptor, inbound: _Inbound) -> None:
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

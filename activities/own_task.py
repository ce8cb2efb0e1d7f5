"""What an activity says and asks of itself at the server, directly and so with an answer.

`activity.heartbeat` belongs to the worker's event loop and says nothing of what became of the beat;
these calls may be made in any loop, and are made on rare paths only.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.api.common.v1 import Payload, Payloads, WorkflowExecution
from temporalio.api.failure.v1 import Failure
from temporalio.api.workflowservice.v1 import (
    DescribeWorkflowExecutionRequest,
    DescribeWorkflowExecutionResponse,
    RecordActivityTaskHeartbeatRequest,
)
from temporalio.client import Client
from temporalio.converter import ActivitySerializationContext
from temporalio.service import RPCError, RPCStatusCode

__all__ = ["OwnTask"]

_PATIENCE = timedelta(seconds=5)


class OwnTask:
    """The task that this activity is, as the server knows it."""

    def __init__(self, client: Client, info: activity.Info) -> None:
        self._client = client
        self._info = info

    @classmethod
    def current(cls) -> "OwnTask | None":
        """Of the activity that runs here; None where no server knows it."""
        try:
            return cls(activity.client(), activity.info())
        except RuntimeError:
            return None

    async def encoded(self, details: Sequence[Any]) -> list[Payload]:
        """Heartbeat details as the next attempt reads them."""
        info = self._info
        context = ActivitySerializationContext(
            namespace=info.namespace,
            activity_id=info.activity_id,
            activity_type=info.activity_type,
            activity_task_queue=info.task_queue,
            workflow_id=info.workflow_id,
            workflow_type=info.workflow_type,
            is_local=info.is_local,
        )
        return list(await self._client.data_converter.with_context(context).encode(details))

    @property
    def is_coded(self) -> bool:
        """Whether payloads pass a codec, which may belong to the worker's own event loop."""
        return self._client.data_converter.payload_codec is not None

    async def beat(self, details: Sequence[Payload]) -> bool:
        """Send a heartbeat and wait until the server has it; false when it has given this attempt up.

        Raises:
            RPCError: the server cannot be reached.
        """
        request = RecordActivityTaskHeartbeatRequest(
            namespace=self._info.namespace,
            task_token=self._info.task_token,
            identity=self._client.identity,
            details=Payloads(payloads=details) if details else None,
        )
        try:
            await self._client.workflow_service.record_activity_task_heartbeat(request, timeout=_PATIENCE)
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return False
            raise
        return True

    async def last_failure(self) -> Failure | None:
        """How the attempt before this one ended.

        Raises:
            RPCError: the server cannot be reached, or does not let a worker ask.
        """
        pending = (await self._described()).pending_activities
        mine = (each for each in pending if each.activity_id == self._info.activity_id)
        found = next(mine, None)
        return found.last_failure if found and found.HasField("last_failure") else None

    async def workflow_task_attempt(self) -> int:
        """Which attempt it is at the workflow task that a local activity is part of.

        Raises:
            RPCError: the server cannot be reached, or does not let a worker ask.
        """
        return (await self._described()).pending_workflow_task.attempt

    async def _described(self) -> DescribeWorkflowExecutionResponse:
        info = self._info
        execution = WorkflowExecution(workflow_id=info.workflow_id or "", run_id=info.workflow_run_id or "")
        request = DescribeWorkflowExecutionRequest(namespace=info.namespace, execution=execution)
        return await self._client.workflow_service.describe_workflow_execution(
            request, retry=True, timeout=_PATIENCE
        )

"""Direct requests of an activity to the server about itself, each with an answer.

`activity.heartbeat` belongs to the worker's event loop and does not report what happened to a heartbeat;
these requests work in any loop, and are made on rare paths only.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from itertools import takewhile
from typing import Any, Literal

from temporalio import activity
from temporalio.api.common.v1 import Payload, Payloads, WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.failure.v1 import Failure
from temporalio.api.workflowservice.v1 import (
    DescribeWorkflowExecutionRequest,
    DescribeWorkflowExecutionResponse,
    GetWorkflowExecutionHistoryReverseRequest,
    RecordActivityTaskHeartbeatRequest,
)
from temporalio.client import Client
from temporalio.converter import ActivitySerializationContext, DataConverter
from temporalio.service import RPCError, RPCStatusCode

__all__ = ["OwnTask", "Standing"]

Standing = Literal["wanted", "canceled", "given up"]
"""Of an attempt: the server wants its result; asks it to end; or has timed it out, and may have given it to another worker."""

_PATIENCE = timedelta(seconds=5)

_TAIL = 100
"""Events read, the last ones."""

_NO_PROGRESS = (
    EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT,
    EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED,
)
"""Events that a history gains while a workflow task is attempted again."""


class OwnTask:
    """The server's view of the current activity."""

    def __init__(self, client: Client, info: activity.Info) -> None:
        self._client = client
        self._info = info

    @classmethod
    def current(cls) -> "OwnTask | None":
        """The task of the current activity; None where no server knows it."""
        try:
            return cls(activity.client(), activity.info())
        except RuntimeError:
            return None

    async def encoded(self, details: Sequence[Any]) -> list[Payload]:
        """Heartbeat details, encoded as the next attempt reads them."""
        return list(await self._converter.encode(details))

    async def decoded(self, failure: Failure) -> BaseException:
        """The failure of an earlier attempt as an exception."""
        return await self._converter.decode_failure(failure)

    @property
    def _converter(self) -> DataConverter:
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
        return self._client.data_converter.with_context(context)

    @property
    def is_coded(self) -> bool:
        """Whether payloads pass a codec, which may belong to the worker's own event loop."""
        return self._client.data_converter.payload_codec is not None

    async def beat(self, details: Sequence[Payload]) -> Standing:
        """Send a heartbeat, and return what the server says of this attempt.

        Raises:
            RPCError: The server cannot be reached.
        """
        request = RecordActivityTaskHeartbeatRequest(
            namespace=self._info.namespace,
            task_token=self._info.task_token,
            identity=self._client.identity,
            details=Payloads(payloads=details) if details else None,
        )
        try:
            answer = await self._client.workflow_service.record_activity_task_heartbeat(
                request, timeout=_PATIENCE
            )
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return "given up"
            raise
        is_canceled = answer.cancel_requested or answer.activity_paused or answer.activity_reset
        return "canceled" if is_canceled else "wanted"

    async def last_failure(self) -> Failure | None:
        """The failure of the attempt before this one.

        Raises:
            RPCError: The server cannot be reached, or does not allow a worker to ask.
        """
        pending = (await self._described()).pending_activities
        mine = (each for each in pending if each.activity_id == self._info.activity_id)
        found = next(mine, None)
        return found.last_failure if found and found.HasField("last_failure") else None

    async def lost_workflow_tasks(self) -> int:
        """How often the workflow task of this local activity has timed out before.

        The history records the first time-outs, among them those of a worker that knew the run; later ones
        are visible only in the number of the attempt.

        Raises:
            RPCError: The server cannot be reached, or does not allow a worker to ask.
        """
        request = GetWorkflowExecutionHistoryReverseRequest(
            namespace=self._info.namespace, execution=self._execution, maximum_page_size=_TAIL
        )
        page, described = await asyncio.gather(
            self._client.workflow_service.get_workflow_execution_history_reverse(
                request, retry=True, timeout=_PATIENCE
            ),
            self._described(),
        )
        kinds = (event.event_type for event in page.history.events)
        tail = takewhile(lambda kind: kind in _NO_PROGRESS, kinds)
        timed_out = sum(kind == EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT for kind in tail)
        return timed_out + max(0, described.pending_workflow_task.attempt - 2)

    @property
    def _execution(self) -> WorkflowExecution:
        return WorkflowExecution(
            workflow_id=self._info.workflow_id or "", run_id=self._info.workflow_run_id or ""
        )

    async def _described(self) -> DescribeWorkflowExecutionResponse:
        request = DescribeWorkflowExecutionRequest(namespace=self._info.namespace, execution=self._execution)
        return await self._client.workflow_service.describe_workflow_execution(
            request, retry=True, timeout=_PATIENCE
        )

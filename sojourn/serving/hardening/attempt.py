"""Ask the server whether an attempt is still wanted, right before it acts.

A worker that stood still wakes up with tasks that it fetched before. The server has timed them out
meanwhile, other workers have done them, and their runs have continued. Such a task would act a second time,
long after anyone expects it. So after a stall the attempt asks the server. Without one it compares two
clocks and sends nothing.

The activities set the check; code below them, such as a model's, calls it. `activity.heartbeat` belongs to
the worker's event loop and does not report what happened to a heartbeat: these requests work in any loop.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from datetime import timedelta
from itertools import takewhile
from typing import Any, Literal

import structlog
from temporalio import activity
from temporalio.api.common.v1 import Payload, Payloads, WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.failure.v1 import Failure
from temporalio.api.workflowservice.v1 import (
    DescribeWorkflowExecutionRequest,
    DescribeWorkflowExecutionResponse,
    GetWorkflowExecutionHistoryReverseRequest,
    RecordActivityTaskHeartbeatRequest,
    RespondActivityTaskCanceledRequest,
)
from temporalio.client import Client
from temporalio.converter import ActivitySerializationContext, DataConverter
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from sojourn.contracts.dispatch import WRONG_WORKER
from sojourn.serving.hardening.loop_watch import now, stalls_of

__all__ = [
    "CHECK",
    "NotWantedError",
    "OwnTask",
    "Standing",
    "StartCheck",
    "begin_in_thread",
    "begin_work",
    "not_wanted",
    "still_wanted",
]


CHECK: "ContextVar[StartCheck | None]" = ContextVar("sojourn_start_check", default=None)


async def still_wanted() -> None:
    """Raise if the server no longer wants the present activity from this worker."""
    check = CHECK.get()
    if check is not None:
        await check.check()


async def begin_work(work: Callable[[], Awaitable[Any]]) -> Any:
    await still_wanted()
    return await work()


def begin_in_thread(work: Callable[[], Any]) -> Callable[[], Any]:
    """Return synchronous work that begins, in its thread, only if it is wanted."""

    def begin() -> Any:
        check = CHECK.get()
        if check is not None:
            check.check_in_thread()
        return work()

    return begin


Standing = Literal["wanted", "canceled", "given up"]
"""The server's view of an attempt.

`wanted`: it waits for the result. `canceled`: it requests the end. `given up`: it has timed out the
attempt, and may have given it to another worker.
"""

_PATIENCE = timedelta(seconds=5)

_TAIL = 100

_NO_PROGRESS = (
    EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT,
    EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED,
)


class OwnTask:
    def __init__(self, client: Client, info: activity.Info) -> None:
        self._client = client
        self._info = info

    @classmethod
    def current(cls) -> "OwnTask | None":
        try:
            return cls(activity.client(), activity.info())
        except RuntimeError:
            return None

    async def encode(self, details: Sequence[Any]) -> list[Payload]:
        return list(await self._converter.encode(details))

    async def decode(self, failure: Failure) -> BaseException:
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
        return self._client.data_converter.payload_codec is not None

    async def beat(self, details: Sequence[Payload]) -> Standing:
        """Send a heartbeat, and return the server's view of this attempt.

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

    async def report_cancellation(self, details: Sequence[Payload]) -> None:
        """End this attempt as canceled, with details that the SDK's own report lacks.

        Raises:
            RPCError: The server cannot be reached, or does not cancel the attempt.
        """
        request = RespondActivityTaskCanceledRequest(
            namespace=self._info.namespace,
            task_token=self._info.task_token,
            identity=self._client.identity,
            details=Payloads(payloads=details),
        )
        await self._client.workflow_service.respond_activity_task_canceled(request, timeout=_PATIENCE)

    async def last_failure(self) -> Failure | None:
        """Return the failure of the attempt before this one.

        Raises:
            RPCError: The server cannot be reached, or does not allow a worker to ask.
        """
        pending = (await self._describe()).pending_activities
        mine = (each for each in pending if each.activity_id == self._info.activity_id)
        found = next(mine, None)
        return found.last_failure if found and found.HasField("last_failure") else None

    async def count_lost_workflow_tasks(self) -> int:
        """Return how often the workflow task of this local activity has timed out.

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
            self._describe(),
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

    async def _describe(self) -> DescribeWorkflowExecutionResponse:
        request = DescribeWorkflowExecutionRequest(namespace=self._info.namespace, execution=self._execution)
        return await self._client.workflow_service.describe_workflow_execution(
            request, retry=True, timeout=_PATIENCE
        )


DELIVERY = 30.0
"""Seconds between the arrival of a task and the start of its activity, which a stall may fill."""

ASK_AGAIN = 1.0

CANCELING = 5.0
"""Seconds, from the heartbeat whose response requests it, within which the SDK must cancel an attempt."""

_log = structlog.get_logger("sojourn.activity")


class NotWantedError(ApplicationError):
    """The attempt must not begin: another worker has it, or it was cancelled."""


class StartCheck:
    """The check of the present activity.

    Its heartbeats hold `details` about earlier attempts.
    """

    def __init__(self, details: dict[str, Any]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stalls = stalls_of(self._loop)
        self._info = activity.info()
        self._task = OwnTask.current()
        self._details = [details] if details else []
        self._known = now() - DELIVERY
        """When the server was known to want this attempt: a stall since then raises the question anew."""
        self._has_ended = False

    def end(self) -> None:
        """Let nothing begin any more, not even in a thread, as there is a result."""
        self._has_ended = True

    async def check(self) -> None:
        """Return if the attempt is still wanted.

        Raises:
            NotWantedError: The server has given the attempt up, or cancels it; or it is a local activity of a workflow task
                that may be another worker's by now: an ordinary activity takes its place.
        """
        while self._stalls.last() > self._known:
            asked = now()
            await self._ask()
            self._known = asked

    def check_in_thread(self) -> None:
        if self._stalls.last() > self._known:
            asyncio.run_coroutine_threadsafe(self.check(), self._loop).result()
        if self._has_ended:
            raise not_wanted()

    async def _ask(self) -> None:
        if self._task is None:
            return
        if self._info.is_local:
            _log.warning("late_start_refused", **self._who)
            raise NotWantedError(
                "this worker stood still, and its workflow task may be another's by now",
                type=WRONG_WORKER,
                non_retryable=True,
            )
        details = await self._task.encode(self._details)
        while True:
            try:
                answer = await self._task.beat(details)
            except RPCError as error:
                _log.warning("late_start_unknown", reason=str(error), **self._who)
                await asyncio.sleep(ASK_AGAIN)
            else:
                break
        if answer == "wanted":
            return
        _log.warning("late_start_refused", **self._who)
        if answer == "canceled":
            activity.heartbeat(*self._details)  # the server's answer lets the SDK cancel this activity
            await asyncio.sleep(CANCELING)
        raise not_wanted()

    @property
    def _who(self) -> dict[str, str]:
        info = self._info
        return {"run_id": info.workflow_id or "", "activity_id": info.activity_id}


def not_wanted() -> NotWantedError:
    return NotWantedError("the server has given this attempt up", type="GivenUp", non_retryable=True)

"""First time: the worker that planned a local call knows, once, that it is new; otherwise it asks the server."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import History, HistoryEvent
from temporalio.api.workflow.v1 import PendingWorkflowTaskInfo
from temporalio.api.workflowservice.v1 import (
    DescribeWorkflowExecutionResponse,
    GetWorkflowExecutionHistoryReverseResponse,
)
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from sojourn import ToolRequest
from sojourn.contracts.dispatch import REPEATED, Dispatch
from sojourn.contracts.tasks import PlanOutcome
from sojourn.serving.hardening.lost_workers import FirstTime

TIMED_OUT = EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT
SCHEDULED = EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED
PROGRESS = EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED

PLAN = PlanOutcome(
    calls=[ToolRequest(name="a.b.c", tool_call_id=id) for id in ("near", "far")],
    dispatches=[Dispatch(kind="local"), Dispatch(kind="activity")],
)


class Server:
    """A Temporal server with the events of the call's run, the newest first, and the attempt of its workflow task."""

    def __init__(self, *newest: "EventType.ValueType", attempt: int = 1) -> None:
        self.newest = newest
        self.attempt = attempt
        self.asked = 0

    async def get_workflow_execution_history_reverse(self, _request: Any, **_options: Any) -> Any:
        self.asked += 1
        events = [HistoryEvent(event_type=kind) for kind in self.newest]
        return GetWorkflowExecutionHistoryReverseResponse(history=History(events=events))

    async def describe_workflow_execution(self, _request: Any, **_options: Any) -> Any:
        task = PendingWorkflowTaskInfo(attempt=self.attempt)
        return DescribeWorkflowExecutionResponse(pending_workflow_task=task)


async def checked(first_time: FirstTime, server: Server, call_id: str = "near", **info: Any) -> None:
    """Begin a call, as an activity of the run's execution `x`."""
    client: Any = SimpleNamespace(workflow_service=server)
    environment = ActivityEnvironment(client=client)
    known = {"is_local": True, "activity_id": call_id, "workflow_run_id": "x", **info}
    environment.info = replace(environment.info, **known)
    await environment.run(first_time.check)


async def test_a_planned_call_is_new_once() -> None:
    """The worker that planned a call begins it without asking the server, but only the first time."""
    first_time, server = FirstTime(), Server(SCHEDULED, PROGRESS)
    first_time.mark_planned("x", PLAN)
    await checked(first_time, server)
    assert server.asked == 0
    await checked(first_time, server)
    assert server.asked == 1


@pytest.mark.parametrize(
    ("call_id", "info"),
    [("near", {"workflow_run_id": "y"}), ("far", {}), ("unheard-of", {})],
    ids=["another execution", "an ordinary call", "another call"],
)
async def test_only_local_calls_planned_here_are_known(call_id: str, info: dict[str, str]) -> None:
    """A call is known to be new by its execution and its id, and only if it is local."""
    first_time, server = FirstTime(), Server(SCHEDULED, PROGRESS)
    first_time.mark_planned("x", PLAN)
    await checked(first_time, server, call_id, **info)
    assert server.asked == 1


@pytest.mark.parametrize(
    "info", [{"is_local": False}, {"attempt": 2}], ids=["ordinary", "tried again by itself"]
)
async def test_attempts_that_temporal_counts_need_no_request(info: dict[str, Any]) -> None:
    """An ordinary activity, and a later attempt of a local one on the same worker, begin without asking the server."""
    server = Server(TIMED_OUT)
    await checked(FirstTime(), server, **info)
    assert server.asked == 0


@pytest.mark.parametrize(
    ("server", "lost"),
    [
        (Server(SCHEDULED, PROGRESS, TIMED_OUT), 0),
        (Server(SCHEDULED, TIMED_OUT, SCHEDULED, PROGRESS), 1),
        (Server(SCHEDULED, TIMED_OUT, SCHEDULED, TIMED_OUT, PROGRESS), 2),
        (Server(SCHEDULED, TIMED_OUT, PROGRESS, attempt=3), 2),
        (Server(SCHEDULED, PROGRESS, attempt=2), 0),
    ],
    ids=["before the last progress", "one", "two", "counted as attempts", "a task that failed once"],
)
async def test_a_worker_that_was_lost_under_a_call_is_counted(server: Server, lost: int) -> None:
    """If workers were lost since the run's last progress, `check` raises `REPEATED` with their number."""
    if not lost:
        await checked(FirstTime(), server)
        return
    with pytest.raises(ApplicationError) as repeated:
        await checked(FirstTime(), server)
    assert (repeated.value.type, repeated.value.details, repeated.value.non_retryable) == (
        REPEATED,
        (lost,),
        True,
    )

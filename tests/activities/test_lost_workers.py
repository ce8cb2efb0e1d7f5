"""Lost workers: an attempt that the server has given to another worker meanwhile does not begin."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.api.failure.v1 import Failure
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse
from temporalio.exceptions import ApplicationError, TimeoutType
from temporalio.exceptions import TimeoutError as TemporalTimeoutError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment

from activities.heartbeat import WRONG_WORKER
from sojourn.serving.hardening.lost_workers import Earlier, _may_have_acted, earlier_attempts


class Server:
    """A Temporal server that has timed out the attempt."""

    async def describe_workflow_execution(self, _request: Any, **_options: Any) -> Any:
        return DescribeWorkflowExecutionResponse()

    async def record_activity_task_heartbeat(self, _request: Any, **_options: Any) -> Any:
        raise RPCError("no such task", RPCStatusCode.NOT_FOUND, b"")


@pytest.mark.parametrize("attempt", [1, 2])
async def test_an_attempt_under_which_no_worker_was_lost_sends_nothing(attempt):
    """Neither the first attempt, nor one after an attempt that failed by itself, is recorded with the server."""
    client: Any = SimpleNamespace(workflow_service=Server(), identity="worker-1")
    environment = ActivityEnvironment(client=client)
    environment.info = replace(environment.info, attempt=attempt)
    assert await environment.run(earlier_attempts) == Earlier()


@pytest.mark.parametrize(
    ("error", "may_have_acted"),
    [
        (None, False),
        (TemporalTimeoutError("no heartbeat", type=TimeoutType.HEARTBEAT, last_heartbeat_details=[]), True),
        (ApplicationError("a bug"), True),
        (ApplicationError("cut by the server", "some text"), True),
        (ApplicationError("no word of it", {"other": 1}), True),
        (ApplicationError("it broke off", {"outcome_unknown": True}), True),
        (ApplicationError("refused", {"outcome_unknown": False}), False),
        (ApplicationError("not this worker's", type=WRONG_WORKER), False),
    ],
    ids=str,
)
async def test_only_a_failure_that_says_so_did_nothing(error, may_have_acted):
    """After a lost worker, or a failure that says nothing of it, the call may have taken effect; one that was refused has not."""

    async def decode(_failure: Any) -> Any:
        return error

    task: Any = SimpleNamespace(decode=decode)
    assert await _may_have_acted(task, Failure() if error else None) is may_have_acted

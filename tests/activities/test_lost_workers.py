"""Lost workers: an attempt that the server has given to another worker meanwhile does not begin."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment

from activities.lost_workers import Earlier, earlier_attempts


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

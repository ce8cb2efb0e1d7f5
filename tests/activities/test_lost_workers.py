"""Lost workers: an attempt that the server has given to another worker meanwhile does not begin."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment

from activities import loop_watch
from activities.loop_watch import watch_of
from activities.lost_workers import Earlier, earlier_attempts


class Server:
    """A Temporal server that has timed out the attempt; counts the heartbeats that it refuses."""

    def __init__(self) -> None:
        self.beats = 0

    async def describe_workflow_execution(self, _request: Any, **_options: Any) -> Any:
        return DescribeWorkflowExecutionResponse()

    async def record_activity_task_heartbeat(self, _request: Any, **_options: Any) -> Any:
        self.beats += 1
        raise RPCError("no such task", RPCStatusCode.NOT_FOUND, b"")


@pytest.mark.parametrize("attempt", [1, 2])
async def test_an_attempt_that_was_given_to_another_worker_does_not_begin(attempt, monkeypatch):
    """Behind a blocked event loop, the first attempt and each later one asks the server whether it is still wanted."""
    monkeypatch.setattr(loop_watch, "_WATCHES", {})  # earlier tests have blocked the loop
    server = Server()
    client: Any = SimpleNamespace(workflow_service=server, identity="worker-1")
    environment = ActivityEnvironment(client=client)
    environment.info = replace(environment.info, attempt=attempt)
    assert await environment.run(earlier_attempts) == Earlier()
    assert server.beats == 0
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(watch_of(loop), "_ended_at", loop.time())
    with pytest.raises(ApplicationError, match="given this attempt up"):
        await environment.run(earlier_attempts)
    assert server.beats == 1

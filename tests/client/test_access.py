"""Access: whether a worker polls a task queue."""

import time
from types import SimpleNamespace
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.taskqueue.v1 import PollerInfo
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, DescribeTaskQueueResponse

from sojourn import Client, data_converter


class Queues:
    """A Temporal server whose task queues were polled so many seconds ago."""

    def __init__(self, ago: list[int]) -> None:
        self.ago = ago
        self.asked: list[str] = []

    async def describe_task_queue(self, request: DescribeTaskQueueRequest) -> DescribeTaskQueueResponse:
        self.asked.append(request.task_queue.name)
        seen = [PollerInfo(last_access_time=Timestamp(seconds=int(time.time()) - ago)) for ago in self.ago]
        return DescribeTaskQueueResponse(pollers=seen)


@pytest.mark.parametrize(
    ("ago", "is_served"), [([], False), ([1], True), ([200], False), ([200, 30], True)], ids=str
)
async def test_a_worker_that_stopped_does_not_count(ago: list[int], is_served: bool) -> None:
    """A worker that polled more than 75 s ago does not count: the server lists pollers for minutes, a worker polls each minute."""
    queues = Queues(ago)
    connection = SimpleNamespace(config=SimpleNamespace(target_host="127.0.0.1:1"))
    temporal: Any = SimpleNamespace(
        namespace="default",
        workflow_service=queues,
        service_client=connection,
        data_converter=data_converter,
    )
    client = Client(temporal, task_queue="mine")
    assert await client.has_worker("gpu") is is_served
    assert queues.asked == ["gpu"]

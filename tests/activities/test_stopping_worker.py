"""A stopping worker asks no run for its transcript: nobody may be left to answer."""

import asyncio
import uuid

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.transcripts import fetch_messages
from sojourn import Client


async def test_a_stopping_worker_does_not_wait_for_a_run_that_no_worker_serves(temporal_address: str) -> None:
    """The query of a run without a worker ends with the worker that asks, not after the query's time-out."""
    client = await Client.connect(temporal_address, task_queue=f"nobody-{uuid.uuid4().hex[:8]}")
    handle = await client.temporal.start_workflow(
        "AgentRun", id=f"unserved-{uuid.uuid4().hex[:8]}", task_queue=client.task_queue
    )
    environment = ActivityEnvironment(client=client.temporal)
    asked = asyncio.ensure_future(
        environment.run(fetch_messages, (handle.id, handle.first_execution_run_id or ""), 0, 1)
    )
    await asyncio.sleep(0.2)
    assert not asked.done()
    environment.worker_shutdown()
    with pytest.raises(ApplicationError, match="the worker stops") as raised:
        await asked
    assert raised.value.type == "WorkerStopping"
    await handle.terminate()

"""Queries while no worker runs: the next worker answers them from the whole history, and the run advances only with its tasks."""

import asyncio
import uuid
from datetime import timedelta

import pytest
import temporalio.client
import temporalio.worker

from sojourn import (
    Agent,
    App,
    AwaitClarification,
    Client,
    PlanResult,
    RunPolicy,
    RunStatus,
    SojournPlugin,
    Turn,
    Worker,
)
from tests.chain import replay


async def plan(turn: Turn) -> PlanResult:
    """Ask at the first message, and answer every other."""
    if turn.messages[-1].text == "first":
        return PlanResult.ask(AwaitClarification(id="q", question="?", expires_after=timedelta(minutes=5)))
    return PlanResult.final(turn.messages[-1].text)


app = App(agents=[Agent("test.agent", planner=plan, policy=RunPolicy(interrupts_allowed=True))])


def ours(client: Client):
    """A `Worker`, without a sandbox."""
    return Worker(app, client)


def plugged(client: Client):
    """A worker of Temporal's own with the plugin, which runs workflows in a sandbox."""
    temporal = temporalio.client.Client(client.temporal.service_client, plugins=[SojournPlugin(app)])
    return temporalio.worker.Worker(temporal, task_queue=client.task_queue or "")


@pytest.mark.parametrize("worker", [ours, plugged])
async def test_a_query_before_signals_and_updates_does_not_split_their_task(temporal_address, worker):
    """A run is queried, signalled and sent messages while no worker runs; what the next one records replays."""
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    session = client.session("test.agent", uuid.uuid4().hex[:8])
    handle = client.temporal.get_workflow_handle(session.run.id)
    async with worker(client):
        await session.send("first", message_id="m0")
        await session.run.until_waiting()

    asked = asyncio.create_task(handle.query("status"))
    await asyncio.sleep(0.1)  # no condition tells that the server has a query
    sent = asyncio.create_task(session.send("second", message_id="m1"))
    await handle.signal("provide_clarification", {"id": "q", "answer": "yes"})
    async with worker(client):
        await asyncio.gather(sent, asked)
        output = await (await session.send("third", message_id="m2")).result()
    assert output.text == "third"
    await replay(client.temporal, handle.id)


async def test_a_query_is_answered_from_the_last_task(temporal_address):
    """What came after the last workflow task is not in the answer yet, and the run takes it up with the next task."""
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    run = client.get_run(f"queried-{uuid.uuid4().hex[:8]}")
    async with ours(client):
        await client.start("test.agent", "first", run_id=run.id)
        await run.until_waiting()
    handle = client.temporal.get_workflow_handle(run.id)
    asked = asyncio.create_task(handle.query("status", result_type=RunStatus))
    await asyncio.sleep(0.1)
    await handle.signal("provide_clarification", {"id": "q", "answer": "yes"})
    async with ours(client):
        assert (await asked).status in ("waiting", "planning", "completed")
        assert (await run.result()).text == "yes"

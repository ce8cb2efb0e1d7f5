"""A request to cancel that reaches a long run together with messages is not lost where the run goes on in a new execution."""

import uuid
from datetime import timedelta

import pytest

from sojourn import Agent, App, AwaitClarification, Client, PlanResult, Turn, Worker
from sojourn.errors import RunCanceled
from tests.workflows.test_endless import executions, flood, shorter
from tests.workflows.test_external import warehouse
from tests.workflows.test_steps_go_on import MIXED, POLICY, WIPE, planning, tools

__all__ = ["shorter"]


async def ask(turn: Turn) -> PlanResult:
    return PlanResult.ask(AwaitClarification(question="on?", id="on"))


async def sleep(turn: Turn) -> PlanResult:
    return PlanResult.wait(timedelta(days=2))


async def greet(turn: Turn) -> PlanResult:
    return PlanResult.final("hello")


WAITS = {
    "a question": ask,
    "a sleep": sleep,
    "an approval": planning([WIPE]),
    "calls of all kinds": planning(MIXED),
    "a pause": ask,
    "an idle conversation": greet,
}


@pytest.mark.parametrize("wait", WAITS)
async def test_a_cancellation_among_messages(shorter, temporal_address, until, wait):
    """The worker is away while messages make the history long, and the run is cancelled among them."""
    agent = Agent("test.agent", planner=WAITS[wait], uses=[tools, warehouse()], policy=POLICY)
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    async with Worker(App(agents=[agent]), client):
        if wait == "an idle conversation":
            session = client.session("test.agent", f"desk-{uuid.uuid4().hex[:8]}")
            await (await session.send("hi")).result()
            run = session.run
        else:
            run = await client.start("test.agent", "go")
        if wait == "a pause":
            await run.pause()

        async def waits() -> bool:
            status = await run.status()
            return status.status != "running" or status.phase == "waiting"

        assert await until(waits)
        await flood(run, 12)

        async def goes_on() -> bool:
            return len(await executions(client, run.id)) > 1

        assert await until(
            goes_on
        )  # its transcript is stored: the next execution needs nothing before it ends
    await flood(run, 16)
    await run.cancel("enough")
    await flood(run, 2)
    async with Worker(App(agents=[agent]), client):
        with pytest.raises(RunCanceled) as ended:
            await run.result()
    assert ended.value.reason == "enough"
    kinds = [event.type async for event in run.events()]
    assert kinds.count("run_canceled") == 1
    assert kinds.count("tool_start") == kinds.count("tool_end")

"""The task queue of a run that nobody names: where workers serve its agent."""

import asyncio

import pytest

from sojourn import Agent, App, Client, InvalidInput, PlanResult, Worker
from sojourn.client.access import queues_serving
from sojourn.errors import NoWorker
from sojourn.testing.scripted import ScriptedPlanner


def app(name: str, agent: str) -> App:
    return App(name=name, agents=[Agent(agent, planner=ScriptedPlanner([PlanResult.final(name)]))])


@pytest.fixture
async def client(temporal_address, monkeypatch) -> Client:
    monkeypatch.delenv("SOJOURN_TASK_QUEUE", raising=False)
    return await Client.connect(temporal_address)


async def test_a_run_starts_where_its_agent_is_served(client):
    """Two apps on one server have queues of their own, and each run starts at its agent's."""
    async with Worker(app("north", "north.desk"), client), Worker(app("south", "south.desk"), client):
        runs = [await client.start(f"{name}.desk", "go") for name in ("north", "south")]
        assert [(await run.result()).text for run in runs] == ["north", "south"]
        queues = [(await client.temporal.get_workflow_handle(run.id).describe()).task_queue for run in runs]
        assert queues == ["north", "south"]


async def test_an_agent_that_two_queues_serve_is_not_guessed(client, temporal_address, until):
    """Two queues that serve one agent are named, and nothing is started."""

    async def are_announced() -> bool:
        return len(await queues_serving(client.temporal, "both.desk")) == 2

    async with Worker(app("east", "both.desk"), client), Worker(app("west", "both.desk"), client):
        await until(are_announced)
        with pytest.raises(InvalidInput, match=r"several task queues serve both\.desk: east, west; .*'east'"):
            await client.start("both.desk", "go")
        named = await Client.connect(temporal_address, task_queue="west")
        assert (await named.execute("both.desk", "go")).text == "west"


async def test_an_agent_that_nobody_serves(client):
    """The error names close agents that are served, and how to start a worker."""
    with pytest.raises(NoWorker, match="sojourn worker MODULE:APP"):
        await client.start("nobody.knows", "go")
    async with Worker(app("lone", "lone.wolf"), client):
        with pytest.raises(NoWorker, match=r"did you mean lone\.wolf\?"):
            await client.start("lone.wulf", "go")


async def test_a_start_can_wait_for_a_worker(client):
    """With `wait_for_worker` the run starts once a worker serves its agent."""
    starting = asyncio.create_task(client.execute("late.desk", "go", wait_for_worker=True))
    await asyncio.sleep(3)
    assert not starting.done()
    async with Worker(app("late", "late.desk"), client):
        assert (await starting).text == "late"


async def test_a_run_that_starts_between_two_workers_waits_for_the_next(client):
    """A moment after its only worker has stopped, as in a deploy, an agent's run starts on its queue and waits there."""
    async with Worker(app("brief", "brief.desk"), client):
        await client.execute("brief.desk", "go")
    run = await client.start("brief.desk", "go")
    async with Worker(app("brief", "brief.desk"), client):
        assert (await run.result()).text == "brief"

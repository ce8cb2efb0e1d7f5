"""Announcements: workers say which agents they serve, where everybody can read it, for as long as they serve."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import PollActivityTaskQueueRequest

import sojourn
from sojourn import Agent, App, Client, PlanResult, Worker
from sojourn.connection import announcements
from sojourn.connection.announcements import (
    MAX_IDENTITY,
    AnnouncedWorker,
    identities,
    other_apps_on,
    read_workers,
)
from sojourn.contracts.ids import WORKERS_QUEUE
from sojourn.server import Server
from sojourn.testing.scripted import ScriptedPlanner


def app(name: str, *agents: str) -> App:
    planner = ScriptedPlanner([PlanResult.final(name)])
    return App(name=name, agents=[Agent(agent, planner=planner) for agent in agents])


async def of(client: Client, *names: str) -> dict[str, frozenset[str]]:
    """The agents by app of the announced workers, of these apps."""
    return {each.app: each.agents for each in await read_workers(client.temporal) if each.app in names}


async def test_a_worker_is_announced_while_it_serves(temporal_address, until):
    """A worker is listed with its queue, agents, process, version and start while it serves, and no longer once it has stopped."""
    client = await Client.connect(temporal_address)
    async with Worker(app("here", "here.a", "here.b"), client):
        (found,) = await until(lambda: _found(client, "here"))
        assert (found.task_queue, found.agents) == ("here", {"here.a", "here.b"})
        assert (found.process, found.build) == (client.temporal.identity, sojourn.__version__)
        assert found.since
        assert timedelta(0) <= datetime.now(UTC) - found.since < timedelta(minutes=1)
    await until(lambda: _gone(client, "here"))


async def _found(client: Client, name: str) -> list[AnnouncedWorker]:
    return [each for each in await read_workers(client.temporal) if each.app == name]


async def _gone(client: Client, name: str) -> bool:
    return not await _found(client, name)


async def test_an_announcement_of_many_agents_is_whole(temporal_address, until):
    """An app with 300 agents is announced by several polls, none longer than a server takes."""
    agents = frozenset(f"crowd.{'long' * 10}{n}" for n in range(300))
    worker = AnnouncedWorker("crowd", "f", "q", agents)
    assert max(len(each) for each in identities(worker, "id")) <= MAX_IDENTITY
    client = await Client.connect(temporal_address)
    async with Worker(app("crowd", *agents), client):
        await until(lambda: _is_whole(client, agents))


async def _is_whole(client: Client, agents: frozenset[str]) -> bool:
    return (await of(client, "crowd")).get("crowd") == agents


def test_a_queue_name_that_leaves_no_room_is_not_announced():
    """A worker on a queue whose name fills an identity is left out: clients name that queue."""
    assert identities(AnnouncedWorker("a", "f", "q" * MAX_IDENTITY, frozenset({"a.b"})), "id") == []


def test_a_queue_with_a_long_name_is_announced_without_the_process():
    """What clients need to find the queue comes first: the process and the version are left out where they do not fit."""
    worker = AnnouncedWorker("a", "f", "q" * 900, frozenset({"a.b"}), process="p" * 100, build="1")
    (told,) = identities(worker, "id")
    assert "ppp" not in told
    assert "a.b" in told


@pytest.mark.parametrize("identity", ["", "7@host", "{}", '{"id":1}', '{"id":"x","agents":5}', "[" * 900])
async def test_polls_of_strangers_are_left_out(temporal_address, identity):
    """Whoever polls the queue with another identity changes nothing."""
    client = await Client.connect(temporal_address)
    request = PollActivityTaskQueueRequest(
        namespace="default", task_queue=TaskQueue(name=WORKERS_QUEUE), identity=identity
    )
    polling = asyncio.create_task(client.temporal.workflow_service.poll_activity_task_queue(request))
    await asyncio.sleep(0.1)
    assert all(each.agents for each in await read_workers(client.temporal))
    polling.cancel()
    await asyncio.wait({polling})


@pytest.mark.usefixtures("processes")
async def test_workers_at_every_partition_are_found(until):
    """With Temporal's usual four partitions of a queue, each of ten workers is found."""
    names = [f"app{n}" for n in range(10)]
    async with Server(port=0, ui=False, attach=False, tuned=False) as server:
        clients = [await Client.connect(server.address) for _ in names]
        workers = [
            Worker(app(name, f"{name}.a"), client) for name, client in zip(names, clients, strict=True)
        ]
        for worker in workers:
            await worker.__aenter__()

        async def are_all_found() -> bool:
            return len(await of(clients[0], *names)) == len(names)

        await until(are_all_found)
        for worker in workers:
            await worker.__aexit__(None, None, None)


@pytest.mark.parametrize(
    ("other", "is_another"),
    [
        (AnnouncedWorker("a", "f", "q", frozenset({"a.x", "a.y"})), False),
        (AnnouncedWorker("a", "f", "q", frozenset({"b.x"})), True),
        (AnnouncedWorker("b", "f", "q", frozenset({"b.x"})), True),
        (AnnouncedWorker("b", "g", "q", frozenset({"a.x"})), False),
        (AnnouncedWorker("b", "f", "r", frozenset({"b.x"})), False),
    ],
    ids=["a new version", "an app of the same name", "another app", "the same agents", "another queue"],
)
def test_which_workers_are_of_another_app(other, is_another):
    """A newer version of an app, and a copy of it, may share its queue; an app with other agents should not."""
    own = AnnouncedWorker("a", "f", "q", frozenset({"a.x"}))
    assert other_apps_on(own, [own, other]) == ([other] if is_another else [])


async def test_a_refused_announcement_is_logged_once(temporal_address, monkeypatch, caplog, until):
    """A worker that may not poll the queue of announcements serves all the same, and says what to allow."""
    monkeypatch.setattr(announcements.Announcement, "QUEUE", "q" * 1_001)
    monkeypatch.setattr(announcements, "_PAUSE", 0.01)
    client = await Client.connect(temporal_address, task_queue="refused")
    async with Worker(app("refused", "refused.a"), client):
        await until(lambda: "worker_not_announced" in caplog.text)
        assert (await client.execute("refused.a", "go")).text == "refused"
    assert caplog.text.count("worker_not_announced") == 1

"""100 runs wait; workers and server are killed meanwhile, and each run goes on with its own answer, once."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sojourn import AwaitClosed
from sojourn.server import Server

from .waiter import Waiter

pytestmark = pytest.mark.durability

AGENTS = ["asker", "payer", "fetcher", "asker", "asker"] * 20
"""What the runs wait for: 60 for an answer, 20 for a decision, 20 for a result; each five in a row are a mix."""

AT_ONCE = 16
"""Updates under way at a time."""


@pytest.fixture
async def server(tmp_path):
    """Give a server that may be killed."""
    async with Server(db_filename=tmp_path / "temporal.db", port=0, ui=False, attach=False) as server:
        yield server


async def some_at_once(number: int, steps: Iterable[Awaitable[Any]]) -> list[Any]:
    """What the steps give, of which so many are taken at a time."""
    slots = asyncio.Semaphore(number)

    async def one(step: Awaitable[Any]) -> Any:
        async with slots:
            return await step

    return await asyncio.gather(*(one(step) for step in steps))


async def signaled(waiters: Iterable[Waiter], server: Server) -> None:
    """Answer by `temporal workflow signal`, two commands at a time."""
    temporal: Path = server.cli.path
    await some_at_once(2, (waiter.signal(temporal, server.address) for waiter in waiters))


async def sent_again(waiter: Waiter) -> None:
    """Send an answer that was sent before: it changes nothing, or comes after the run's end."""
    with suppress(AwaitClosed):
        assert await waiter.update() == waiter.wait.id


async def contradicted(waiter: Waiter) -> None:
    """Send another answer than was sent before: it is refused."""
    with pytest.raises(AwaitClosed):
        await replace(waiter, number=waiter.number + 1).update()


async def test_a_hundred_waits_outlive_workers_and_server(stages, server):
    """Whichever way the answers come, and however often, each is used once, and no run breaks."""
    stage = await stages(server.address)
    workers = await asyncio.gather(*(stage.worker("waits_app:app") for _ in range(2)))
    runs = await some_at_once(
        AT_ONCE,
        (stage.client.start(f"waits.{agent}", f"slip-{number}") for number, agent in enumerate(AGENTS)),
    )
    waiters = [
        await Waiter.found(number, agent, run)
        for number, (agent, run) in enumerate(zip(AGENTS, runs, strict=True))
    ]

    # Nobody serves; what is answered now is kept, by a server that is killed too.
    for worker in workers:
        worker.kill()
    await signaled(waiters[:5], server)
    server.kill()
    await server.restart()
    await signaled(waiters[5:20], server)

    # Answers that wait for a worker; the first say again, or otherwise, what was signaled.
    early = [
        *(sent_again(waiter) for waiter in waiters[10:15]),
        *(contradicted(waiter) for waiter in waiters[15:20]),
        *(waiter.update() for waiter in waiters[20:25]),
    ]
    waiting = [asyncio.create_task(answer) for answer in early]
    await asyncio.gather(*(stage.worker("waits_app:app") for _ in range(2)))
    await asyncio.gather(
        *waiting,
        signaled(waiters[25:30], server),
        some_at_once(AT_ONCE, (waiter.update() for waiter in waiters[30:])),
    )

    for waiter, story in zip(waiters, await some_at_once(AT_ONCE, map(stage.story, runs)), strict=True):
        assert_answered_once(waiter, story)


def assert_answered_once(waiter: Waiter, story: Any) -> None:
    """The run ended with its own answer, which was used once, and never wedged."""
    run_id = waiter.run.id
    assert (story.output.text, story.output.notes) == (waiter.end, []), run_id
    assert story.of_type("WORKFLOW_TASK_FAILED") == [], run_id
    kinds = Counter(event.type for event in story.events)
    once = ["await_answered", "run_completed", "run_stream_end", "tool_start", "tool_end"]
    assert [kinds[kind] for kind in once] == [1] * 5, run_id
    (answered,) = (event for event in story.events if event.type == "await_answered")
    assert answered.await_id == waiter.wait.id
    for point in waiter.executed:
        assert story.executions(point) == [("start", 1), ("end", 1)]
    assert {line["point"] for line in story.records} == set(waiter.executed)

"""100 runs wait while workers and server are killed; each run continues with its own answer, once."""

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

AGENTS = ["asker", "payer", "fetcher", "asker", "asker"] * 20
"""The agents of the runs: 60 wait for an answer, 20 for a decision, 20 for a result, mixed in each five in a row."""

AT_ONCE = 16
"""Most updates under way at a time."""


@pytest.fixture
async def server(tmp_path):
    """A server that a test may kill."""
    async with Server(db_filename=tmp_path / "temporal.db", port=0, ui=False, attach=False) as server:
        yield server


async def some_at_once(number: int, steps: Iterable[Awaitable[Any]]) -> list[Any]:
    """The results of the steps, `number` of which are awaited at a time."""
    slots = asyncio.Semaphore(number)

    async def one(step: Awaitable[Any]) -> Any:
        async with slots:
            return await step

    return await asyncio.gather(*(one(step) for step in steps))


async def signal_all(waiters: Iterable[Waiter], server: Server) -> None:
    """Answer all by `temporal workflow signal`, two commands at a time."""
    temporal: Path = server.cli.path
    await some_at_once(2, (waiter.signal(temporal, server.address) for waiter in waiters))


async def send_again(waiter: Waiter) -> None:
    """Send an answer again: the repetition changes nothing, or comes after the run's end."""
    with suppress(AwaitClosed):
        assert await waiter.update() == waiter.wait.id


async def contradict(waiter: Waiter) -> None:
    """Send another answer after the first, which is refused."""
    with pytest.raises(AwaitClosed):
        await replace(waiter, number=waiter.number + 1).update()


async def test_a_hundred_waits_outlive_workers_and_server(stages, server):
    """Answers by signal and by update, some sent twice, are each used once, and no run breaks."""
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

    # No worker serves: the server keeps the answers, through its own restart.
    for worker in workers:
        worker.kill()
    await signal_all(waiters[:5], server)
    server.kill()
    await server.restart()
    await signal_all(waiters[5:20], server)

    # These updates wait for a worker; the first ten repeat or contradict an answer that was signaled.
    early = [
        *(send_again(waiter) for waiter in waiters[10:15]),
        *(contradict(waiter) for waiter in waiters[15:20]),
        *(waiter.update() for waiter in waiters[20:25]),
    ]
    waiting = [asyncio.create_task(answer) for answer in early]
    await asyncio.gather(*(stage.worker("waits_app:app") for _ in range(2)))
    await asyncio.gather(
        *waiting,
        signal_all(waiters[25:30], server),
        some_at_once(AT_ONCE, (waiter.update() for waiter in waiters[30:])),
    )

    for waiter, story in zip(waiters, await some_at_once(AT_ONCE, map(stage.story, runs)), strict=True):
        assert_answered_once(waiter, story)


def assert_answered_once(waiter: Waiter, story: Any) -> None:
    """Assert that the run ended with its own answer, used once, and that no workflow task failed."""
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

"""What runs hold in a worker's memory is bounded in bytes: those that wait leave it, and are brought back when answered."""

import asyncio
import gc
import logging
import secrets
import uuid
from contextlib import asynccontextmanager

import pytest

from sojourn import Agent, App, AwaitClarification, Client, PlanResult, RunPolicy, Toolset, Worker
from sojourn.serving import cached_runs
from sojourn.serving.cached_runs import evict
from sojourn.testing.scripted import ScriptedPlanner

RUNS = 10
EACH = 110_000
"""Bytes that 200 kB of random hex take at least, compressed."""
ROOM = 400_000
"""For three runs."""
NEVER = 3_600.0

read: list[str] = []
books = Toolset("test.books")


@books.tool
async def page(number: str) -> str:
    """Read a page, which does not compress."""
    read.append(number)
    return secrets.token_hex(100_000)


def turn_over(turn):
    """Read the page that the run was started with."""
    return PlanResult.calls(page.call(number=turn.messages[0].text))


def asking(id: str) -> PlanResult:
    """A question."""
    return PlanResult.ask(AwaitClarification(id=id, question="?"))


def tell(turn):
    """What was answered last."""
    return PlanResult.final(turn.messages[-1].text)


app = App(
    agents=[
        Agent(
            "test.reader",
            planner=ScriptedPlanner([turn_over, asking("first"), asking("second"), tell]),
            uses=[books],
            policy=RunPolicy(interrupts_allowed=True),
        )
    ]
)


@pytest.fixture
def serving(temporal_address, monkeypatch, caplog):
    """Serve with so much room and so many seconds between looks; gives the client, and the worker's runs."""
    caplog.set_level(logging.DEBUG, logger="temporalio.worker._workflow")  # the others write whole results
    read.clear()

    @asynccontextmanager
    async def serve(room: int, every: float):
        monkeypatch.setattr(cached_runs, "LOOKED_AT_EVERY", every)
        client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
        worker = Worker(app, client, max_cached_bytes=room)
        async with worker:
            yield client, worker._cached, worker._worker

    return serve


@pytest.fixture
def waiting(status_when):
    """Wait until a run waits for an answer to this question; it is in memory then."""

    async def wait(run, id: str) -> None:
        await status_when(run, lambda status: [wait.id for wait in status.awaits] == [id])

    return wait


def evictions(caplog) -> int:
    """How often a run has left because it was asked to."""
    return caplog.text.count("message: Eviction explicitly requested by lang")


async def test_the_bytes_are_bounded(serving, waiting, until, traces, caplog):
    """Ten runs with room for three: seven leave, all go on when they are answered, and nothing is done again."""
    async with serving(room=ROOM, every=0.1) as (client, cached, _):
        runs = [await client.start("test.reader", f"p{number}") for number in range(RUNS)]
        for run in runs:
            await waiting(run, "first")
        await until(lambda: evictions(caplog) >= RUNS - ROOM // EACH and cached.held <= ROOM)
        for question in ("first", "second"):
            await asyncio.gather(*(run.answer(question, f"{question} of {run.id}") for run in runs))
            if question == "first":
                for run in runs:
                    await waiting(run, "second")
                await until(lambda: cached.held <= ROOM)
        outputs = await asyncio.gather(*(run.result() for run in runs))
        assert [output.text for output in outputs] == [f"second of {run.id}" for run in runs]
        await until(lambda: cached.held == 0)
        assert sorted(read) == sorted(f"p{number}" for number in range(RUNS))
        for run in runs:
            await traces(run).check()


async def test_without_need_none_leaves(serving, waiting, caplog):
    """Runs for which there is room stay."""
    async with serving(room=ROOM, every=NEVER) as (client, cached, worker):
        await waiting(await client.start("test.reader", "p"), "first")
        for _ in range(5):
            cached.look(worker)
        assert EACH < cached.held < ROOM
    assert evictions(caplog) == 0


async def test_who_has_moved_stays(serving, waiting, until, caplog):
    """With room for one of two, the one leaves that has waited for longer, though it began later."""
    async with serving(room=2 * EACH, every=NEVER) as (client, cached, worker):
        runs = [await client.start("test.reader", f"p{number}") for number in range(2)]
        for run in runs:
            await waiting(run, "first")
        cached.look(worker)
        await runs[0].answer("first", "yes")
        await waiting(runs[0], "second")
        cached.look(worker)
        await until(lambda: cached.held < 2 * EACH)
        (stays,) = [run() for run in cached._runs.values()]
        assert list(stays.kept.state.waits.open) == ["second"]
    assert evictions(caplog) == 1


async def test_one_without_room_leaves_once(serving, waiting, until, caplog):
    """A run that takes more than all may leaves once it stands still, and again only after it was brought back."""
    async with serving(room=EACH // 2, every=NEVER) as (client, cached, worker):
        run = await client.start("test.reader", "p")
        for back in range(1, 3):
            await waiting(run, "first")
            asked = len(cached._left)
            cached.look(worker)
            assert len(cached._left) == asked
            cached.look(worker)
            assert len(cached._left) == asked + 1
            await until(lambda: cached.held == 0)
            for _ in range(5):
                cached.look(worker)
            assert evictions(caplog) == back


async def test_what_has_left_is_freed(serving, waiting, until):
    """The memory of a run that has left is not kept until Python looks for cycles by itself."""
    gc.disable()
    try:
        async with serving(room=EACH // 2, every=NEVER) as (client, cached, worker):
            await waiting(await client.start("test.reader", "p"), "first")
            (run,) = cached._runs.values()
            cached.look(worker)
            cached.look(worker)
            await until(lambda: cached.held == 0)
            await until(lambda: cached.free() or run() is None)
    finally:
        gc.enable()


async def test_what_is_still_held_is_freed_later(serving, waiting, until):
    """A run that a thread still holds when it is looked for is looked for again; one that stays, not for ever."""
    gc.disable()
    try:
        async with serving(room=EACH // 2, every=NEVER) as (client, cached, worker):
            await waiting(await client.start("test.reader", "p"), "first")
            (run,) = cached._runs.values()
            thread = run()
            cached.look(worker)
            cached.look(worker)
            await until(lambda: cached.held == 0)
            cached.free()
            assert run() is thread
            del thread
            await until(lambda: cached.free() or run() is None)
            cached.free()
            assert cached._left == []
    finally:
        gc.enable()


async def test_temporal_still_has_the_way(serving):
    """What is used of Temporal's own worker is there, and takes a run that is not."""
    async with serving(room=0, every=NEVER) as (_, _, worker):
        evict(worker, "nobody")


async def test_another_sdk_without_the_way_is_told(serving, waiting, until, caplog):
    """Where it is not there, the log says that the count alone bounds the runs."""
    async with serving(room=0, every=NEVER) as (client, cached, _):
        await waiting(await client.start("test.reader", "p"), "first")
        cached_runs.LOOKED_AT_EVERY = 0.05
        async with cached.watching(object()):
            await until(lambda: "cache_bounded_by_count_only" in caplog.text)

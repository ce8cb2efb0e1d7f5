"""The memory of a worker's runs is bounded in bytes: runs that wait are evicted, and rebuilt when they are answered."""

import asyncio
import gc
import logging
import secrets
import uuid
import weakref
from contextlib import asynccontextmanager

import pytest

from sojourn import Agent, App, AwaitClarification, Client, PlanResult, RunPolicy, Toolset, Worker
from sojourn.serving import run_cache
from sojourn.serving.run_cache import evict
from sojourn.testing.scripted import ScriptedPlanner

RUNS = 6
EACH = 110_000
"""Least size of a run in bytes: 200 kB of random hex, compressed."""
ROOM = 400_000
"""Bytes for three runs."""
NEVER = 3_600.0

read: list[str] = []
books = Toolset("test.books")


@books.tool
async def page(number: str) -> str:
    """Read a page, which does not compress."""
    read.append(number)
    return secrets.token_hex(100_000)


POLICY = RunPolicy(interrupts_allowed=True)


def turn_over(turn):
    """Read the page that the run's first message names."""
    return PlanResult.calls(page.call(number=turn.messages[0].text))


def asking(id: str) -> PlanResult:
    """A plan that asks a question with this id."""
    return PlanResult.ask(AwaitClarification(id=id, question="?"))


def report(turn):
    """Answer with the last message."""
    return PlanResult.final(turn.messages[-1].text)


app = App(
    agents=[
        Agent(
            "test.reader",
            planner=ScriptedPlanner([turn_over, asking("first"), asking("second"), report]),
            uses=[books],
            policy=POLICY,
        )
    ]
)


@pytest.fixture
def serving(temporal_address, monkeypatch, caplog):
    """Start a worker with `room` bytes and checks `every` so many seconds; yield client, runs and Temporal's worker."""
    caplog.set_level(logging.DEBUG, logger="temporalio.worker._workflow")  # other loggers write whole results
    read.clear()

    @asynccontextmanager
    async def serve(room: int, every: float):
        monkeypatch.setattr(run_cache, "LOOKED_AT_EVERY", every)
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
    """Number of evictions that Sojourn has requested."""
    return caplog.text.count("message: Eviction explicitly requested by lang")


async def test_the_bytes_are_bounded(serving, waiting, until, traces, caplog):
    """Of ten runs with room for three, seven are evicted; all go on when they are answered, and no call runs twice."""
    async with serving(room=ROOM, every=0.1) as (client, cached, _):
        runs = [await client.start("test.reader", f"p{number}") for number in range(RUNS)]
        for run in runs:
            await waiting(run, "first")
        await until(lambda: evictions(caplog) >= RUNS - ROOM // EACH and cached.total_bytes <= ROOM)
        for question in ("first", "second"):
            await asyncio.gather(*(run.answer(question, f"{question} of {run.id}") for run in runs))
            if question == "first":
                for run in runs:
                    await waiting(run, "second")
                await until(lambda: cached.total_bytes <= ROOM)
        outputs = await asyncio.gather(*(run.result() for run in runs))
        assert [output.text for output in outputs] == [f"second of {run.id}" for run in runs]
        await until(lambda: cached.total_bytes == 0)
        assert sorted(read) == sorted(f"p{number}" for number in range(RUNS))
        for run in runs:
            await traces(run).check()


async def test_runs_with_room_are_not_evicted(serving, waiting, caplog):
    """A run that fits stays in memory."""
    async with serving(room=ROOM, every=NEVER) as (client, cached, worker):
        await waiting(await client.start("test.reader", "p"), "first")
        for _ in range(5):
            cached.look(worker)
        assert EACH < cached.total_bytes < ROOM
    assert evictions(caplog) == 0


async def test_the_run_that_is_idle_for_longest_is_evicted(serving, waiting, until, caplog):
    """Of two runs with room for one, the run that has waited for longer is evicted, though it started later."""
    async with serving(room=2 * EACH, every=NEVER) as (client, cached, worker):
        runs = [await client.start("test.reader", f"p{number}") for number in range(2)]
        for run in runs:
            await waiting(run, "first")
        cached.look(worker)
        await runs[0].answer("first", "yes")
        await waiting(runs[0], "second")
        cached.look(worker)
        await until(lambda: cached.total_bytes < 2 * EACH)
        (stays,) = cached._runs.workflows.values()
        assert list(stays.current.state.waits.open) == ["second"]
    assert evictions(caplog) == 1


async def test_a_run_over_the_limit_is_evicted_once(serving, waiting, until, caplog):
    """A run that exceeds the limit alone is evicted when it is idle, and again only after it was rebuilt."""
    async with serving(room=EACH // 2, every=NEVER) as (client, cached, worker):
        run = await client.start("test.reader", "p")
        for back in range(1, 3):
            await waiting(run, "first")
            requested = len(cached._left)
            cached.look(worker)
            assert len(cached._left) == requested
            cached.look(worker)
            assert len(cached._left) == requested + 1
            await until(lambda: cached.total_bytes == 0)
            for _ in range(5):
                cached.look(worker)
            assert evictions(caplog) == back


async def test_an_evicted_run_is_freed(serving, waiting, until):
    """`free` releases the memory of an evicted run where Python collects no garbage by itself."""
    gc.disable()
    try:
        async with serving(room=EACH // 2, every=NEVER) as (client, cached, worker):
            await waiting(await client.start("test.reader", "p"), "first")
            (run,) = map(weakref.ref, cached._runs.workflows.values())
            cached.look(worker)
            cached.look(worker)
            await until(lambda: cached.total_bytes == 0)
            await until(lambda: cached.free() or run() is None)
    finally:
        gc.enable()


async def test_an_evicted_run_that_is_referenced_is_freed_later(serving, waiting, until):
    """`free` tries again with a run that something still references, but not for ever."""
    gc.disable()
    try:
        async with serving(room=EACH // 2, every=NEVER) as (client, cached, worker):
            await waiting(await client.start("test.reader", "p"), "first")
            (run,) = map(weakref.ref, cached._runs.workflows.values())
            reference = run()
            cached.look(worker)
            cached.look(worker)
            await until(lambda: cached.total_bytes == 0)
            cached.free()
            assert run() is reference
            del reference
            await until(lambda: cached.free() or run() is None)
            cached.free()
            assert cached._left == []
    finally:
        gc.enable()


async def test_a_notice_on_its_way_does_not_end_the_bound(temporal_address, until):
    """While a notice is delivered, which is a workflow too, the worker goes on to look at its runs."""
    told, release = asyncio.Event(), asyncio.Event()

    async def tell(notice) -> None:
        told.set()
        await release.wait()

    noted = App(
        agents=[Agent("test.teller", planner=ScriptedPlanner([asking("first"), report]), policy=POLICY)],
        on_wait=tell,
    )
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    async with Worker(noted, client, max_cached_bytes=0) as worker:
        run = await client.start("test.teller", "p")
        await told.wait()
        worker._cached.look(worker._worker)
        worker._cached.look(worker._worker)
        await until(lambda: worker._cached.total_bytes == 0)
        release.set()
        await run.answer("first", "yes")
        assert (await run.result()).text == "yes"


async def test_temporals_worker_can_evict(serving):
    """The private method of Temporal's worker exists, and ignores an unknown run."""
    async with serving(room=0, every=NEVER) as (_, _, worker):
        evict(worker, "nobody")


async def test_a_worker_that_cannot_evict_is_logged(serving, waiting, until, caplog):
    """Where that method is missing, the log says that only their count bounds the runs."""
    async with serving(room=0, every=NEVER) as (client, cached, _):
        await waiting(await client.start("test.reader", "p"), "first")
        run_cache.LOOKED_AT_EVERY = 0.05
        async with cached.watching(object()):
            await until(lambda: "cache_bounded_by_count_only" in caplog.text)

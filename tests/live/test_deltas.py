"""What a planner writes to: gathered, bounded, in its own time."""

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime

import pytest

from sojourn.live import LocalTransport, current_deltas
from sojourn.live import deltas as module
from sojourn.live.deltas import Attempt, telling

START = datetime(2027, 1, 4, tzinfo=UTC)


def attempt(number: int = 1) -> Attempt:
    return Attempt(topic="r", plan=1, attempt=number, scheduled=START, started=START)


@pytest.fixture
async def said(first):
    """A transport that is followed, and a function that reads what it carried."""
    transport = LocalTransport()
    async with aclosing(transport.subscribe("r")) as news:
        reading = asyncio.ensure_future(anext(news))
        await asyncio.sleep(0)

        async def read(count: int):
            taken = list(await reading)
            return taken + (await first(news, count - len(taken)) if len(taken) < count else [])

        yield transport, read
        if not reading.done():
            reading.cancel()
            await asyncio.wait({reading})


async def test_nobody_asks_and_nothing_is_done():
    """No sink, no task: a planner makes a plain request."""
    before = asyncio.all_tasks()
    async with telling(LocalTransport(), attempt(2)):
        assert current_deltas() is None
        assert asyncio.all_tasks() == before
    assert current_deltas() is None


async def test_small_pieces_become_one(said):
    """The first goes out at once; what comes within 30 ms goes out together, kind by kind."""
    transport, read = said
    async with telling(transport, attempt()):
        deltas = current_deltas()
        await deltas.text("a")
        for piece in "bcd":
            await deltas.text(piece)
        await deltas.thinking("hm")
        await deltas.tool_call("x.y", '{"a":', index=0)
        await deltas.tool_call("x.y", "1}", index=0)
        await deltas.tool_call("x.y", "{}", index=1)
    told = await read(5)
    assert [(each.kind, each.text, each.index) for each in told] == [
        ("text", "a", 0),
        ("text", "bcd", 0),
        ("thinking", "hm", 0),
        ("tool_call", '{"a":1}', 0),
        ("tool_call", "{}", 1),
    ]
    assert [each.seq for each in told] == list(range(5))


async def test_a_later_attempt_says_that_it_begins(said):
    """Before its planner says anything, and though it never may."""
    transport, read = said
    async with telling(transport, attempt(2)):
        pass
    (begun,) = await read(1)
    assert (begun.kind, begun.attempt, begun.seq) == ("begun", 2, 0)


async def test_what_is_written_after_the_turn_is_dropped(said):
    """A task that outlives the turn cannot add to it."""
    transport, read = said
    async with telling(transport, attempt()):
        deltas = current_deltas()
        await deltas.text("in time")
    await deltas.text("late")
    assert deltas._task.done()
    assert deltas._waiting == []
    assert [each.text for each in await read(1)] == ["in time"]


async def test_an_answer_without_end_is_told_up_to_a_bound(said, monkeypatch):
    """The rest comes with the message; a large piece is told in several."""
    transport, read = said
    monkeypatch.setattr(module, "MAX_CHARS", 20_000)
    async with telling(transport, attempt()):
        deltas = current_deltas()
        await deltas.text("x" * 19_000)
        await deltas.text("y" * 2_000)
        assert current_deltas() is None
    assert [len(each.text) for each in await read(3)] == [8_000, 8_000, 3_000]


async def test_an_answer_in_small_pieces_is_told_up_to_a_bound(said, monkeypatch, until):
    """However few characters they have, only so many deltas of an attempt are sent."""
    transport, read = said
    monkeypatch.setattr(module, "MAX_DELTAS", 2)
    async with telling(transport, attempt()):
        deltas = current_deltas()
        for count, piece in enumerate("ab", start=1):
            await deltas.text(piece)
            await until(lambda count=count: deltas._seq == count)
        await deltas.text("c")
        assert current_deltas() is None
    assert [each.text for each in await read(2)] == ["a", "b"]
    assert deltas._seq == 2


async def test_a_transport_that_fails_costs_the_turn_nothing():
    """Whatever it raises, and if it never returns: the planner goes on, and the turn ends."""

    class Broken(LocalTransport):
        asked = 0

        def is_wanted(self, topic):
            return True

        async def publish(self, topic, deltas):
            self.asked += 1
            raise OSError("no")

    class Hanging(Broken):
        async def publish(self, topic, deltas):
            self.asked += 1
            await asyncio.Event().wait()

    for kind in (Broken, Hanging):
        transport = kind()
        async with telling(transport, attempt()):
            deltas = current_deltas()
            for _ in range(100):
                await deltas.text("x")
        await asyncio.wait({deltas._task})
        assert transport.asked == 1

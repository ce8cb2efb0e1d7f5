"""Deltas are gathered and bounded, and never delay the planner that writes them."""

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime

import pytest

from sojourn.live import LocalTransport, current_deltas
from sojourn.live import deltas as module
from sojourn.live.deltas import PlanAttempt, telling

START = datetime(2027, 1, 4, tzinfo=UTC)


def attempt(number: int = 1) -> PlanAttempt:
    return PlanAttempt(topic="r", plan=1, attempt=number, scheduled=START, started=START)


@pytest.fixture
async def followed(first):
    """A transport with a subscriber, and a function that reads the subscriber's deltas."""
    transport = LocalTransport()
    async with aclosing(transport.subscribe("r")) as subscription:
        reading = asyncio.ensure_future(anext(subscription))
        await asyncio.sleep(0)

        async def read(count: int):
            deltas = list(await reading)
            return deltas + (await first(subscription, count - len(deltas)) if len(deltas) < count else [])

        yield transport, read
        if not reading.done():
            reading.cancel()
            await asyncio.wait({reading})


async def test_without_a_subscriber_nothing_is_done():
    """Without a subscriber there is no writer and no task, so a planner makes a plain request."""
    before = asyncio.all_tasks()
    async with telling(LocalTransport(), attempt(2)):
        assert current_deltas() is None
        assert asyncio.all_tasks() == before
    assert current_deltas() is None


async def test_small_pieces_become_one(followed):
    """The first piece is sent at once; the pieces of the next 30 ms are joined, kind by kind."""
    transport, read = followed
    async with telling(transport, attempt()):
        deltas = current_deltas()
        await deltas.text("a")
        for piece in "bcd":
            await deltas.text(piece)
        await deltas.thinking("hm")
        await deltas.tool_call("x.y", '{"a":', index=0)
        await deltas.tool_call("x.y", "1}", index=0)
        await deltas.tool_call("x.y", "{}", index=1)
    received = await read(5)
    assert [(each.kind, each.text, each.index) for each in received] == [
        ("text", "a", 0),
        ("text", "bcd", 0),
        ("thinking", "hm", 0),
        ("tool_call", '{"a":1}', 0),
        ("tool_call", "{}", 1),
    ]
    assert [each.seq for each in received] == list(range(5))


async def test_a_later_attempt_begins_with_its_own_delta(followed):
    """A second attempt sends `begun` before its planner writes, and even if the planner never writes."""
    transport, read = followed
    async with telling(transport, attempt(2)):
        pass
    (begun,) = await read(1)
    assert (begun.kind, begun.attempt, begun.seq) == ("begun", 2, 0)


async def test_a_piece_after_the_attempt_is_dropped(followed):
    """A task that outlives the attempt cannot add to its deltas."""
    transport, read = followed
    async with telling(transport, attempt()):
        deltas = current_deltas()
        await deltas.text("in time")
    await deltas.text("late")
    assert deltas._task.done()
    assert deltas._waiting == []
    assert [each.text for each in await read(1)] == ["in time"]


async def test_the_characters_of_an_attempt_are_bounded(followed, monkeypatch):
    """Pieces beyond the most characters are dropped; a large piece is sent as several deltas."""
    transport, read = followed
    monkeypatch.setattr(module, "MAX_CHARS", 20_000)
    async with telling(transport, attempt()):
        deltas = current_deltas()
        await deltas.text("x" * 19_000)
        await deltas.text("y" * 2_000)
        assert current_deltas() is None
    assert [len(each.text) for each in await read(3)] == [8_000, 8_000, 3_000]


async def test_the_deltas_of_an_attempt_are_bounded(followed, monkeypatch, until):
    """Pieces beyond the most deltas are dropped, however few characters they have."""
    transport, read = followed
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


async def test_deltas_that_wait_for_a_slow_transport_are_bounded_too(monkeypatch):
    """While a transport does not return, the deltas that are not sent yet count."""
    monkeypatch.setattr(module, "MAX_DELTAS", 3)

    class Slow(LocalTransport):
        def is_wanted(self, topic):
            return True

        async def publish(self, topic, deltas):
            await asyncio.Event().wait()

    async with telling(Slow(), attempt()):
        deltas = current_deltas()
        for index in range(9):
            await deltas.tool_call("a.b.c", "{}", index=index)
        assert current_deltas() is None
    assert len(deltas._waiting) <= 3


async def test_a_transport_that_fails_does_not_disturb_the_planner():
    """When a transport raises, or never returns, the planner continues and the attempt ends."""

    class Broken(LocalTransport):
        published = 0

        def is_wanted(self, topic):
            return True

        async def publish(self, topic, deltas):
            self.published += 1
            raise OSError("no")

    class Hanging(Broken):
        async def publish(self, topic, deltas):
            self.published += 1
            await asyncio.Event().wait()

    for kind in (Broken, Hanging):
        transport = kind()
        async with telling(transport, attempt()):
            deltas = current_deltas()
            for _ in range(100):
                await deltas.text("x")
        await asyncio.wait({deltas._task})
        assert transport.published == 1

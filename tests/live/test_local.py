"""Deltas within one process."""

import asyncio
import threading
from contextlib import aclosing

from sojourn.live import LocalTransport


async def subscribed(news):
    """Read on in the background, so that the subscription stands."""
    reading = asyncio.ensure_future(anext(news))
    await asyncio.sleep(0)
    return reading


async def test_nothing_is_wanted_until_somebody_subscribes(delta):
    """And nothing is kept of what nobody wants."""
    transport = LocalTransport()
    assert not transport.is_wanted("r")
    assert not await transport.publish("r", [delta("a")])
    async with aclosing(transport.subscribe("r")) as news:
        reading = await subscribed(news)
        assert transport.is_wanted("r")
        assert not transport.is_wanted("other")
        assert await transport.publish("r", [delta("b")])
        assert [each.text for each in await reading] == ["b"]
    assert not transport.is_wanted("r")
    assert transport._logs == {}


async def test_who_comes_late_gets_the_answer_from_its_beginning(delta, first):
    """As far as it was said; an earlier attempt's is gone."""
    transport = LocalTransport()
    async with aclosing(transport.subscribe("r")) as news, aclosing(transport.subscribe("r")) as late:
        reading = await subscribed(news)
        await transport.publish("r", [delta("old")])
        await reading
        await transport.publish("r", [delta("a", attempt=2)])
        await transport.publish("r", [delta("b", attempt=2, seq=1)])
        assert [each.text for each in await first(late, 2)] == ["a", "b"]
        assert [each.text for each in await first(news, 2)] == ["a", "b"]


async def test_an_attempt_that_was_given_up_is_dropped(delta, first):
    """It cannot put its words among those of the next."""
    transport = LocalTransport()
    async with aclosing(transport.subscribe("r")) as news:
        reading = await subscribed(news)
        await transport.publish("r", [delta("new", attempt=2)])
        assert not await transport.publish("r", [delta("late", attempt=1)])
        await transport.publish("r", [delta("er", attempt=2, seq=1)])
        texts = [each.text for each in await reading]
        if len(texts) < 2:
            texts += [each.text for each in await first(news, 1)]
        assert texts == ["new", "er"]


async def test_a_subscriber_that_never_reads_holds_up_nobody(delta, first):
    """Others read on; it finds all of the present answer when it does."""
    transport = LocalTransport()
    async with aclosing(transport.subscribe("r")) as slow, aclosing(transport.subscribe("r")) as quick:
        reading = await subscribed(slow)
        await transport.publish("r", [delta("0", seq=0)])
        await reading
        for number in range(1, 1000):
            await transport.publish("r", [delta(str(number), seq=number)])
        assert len(await first(quick, 1000)) == 1000
        assert [each.seq for each in await first(slow, 999)] == list(range(1, 1000))


async def test_loops_of_other_threads_are_served(delta):
    """A worker in a thread of its own tells a client in this one."""
    transport = LocalTransport()
    async with aclosing(transport.subscribe("r")) as news:
        reading = await subscribed(news)
        thread = threading.Thread(
            target=asyncio.run, args=(transport.publish("r", [delta("from elsewhere")]),)
        )
        thread.start()
        assert [each.text for each in await reading] == ["from elsewhere"]
        thread.join()

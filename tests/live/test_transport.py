"""Deltas within one process."""

import asyncio
import threading
from contextlib import aclosing

from sojourn.live import LocalTransport


async def reading_of(subscription):
    """Read a subscription in a task, which begins the subscription."""
    reading = asyncio.ensure_future(anext(subscription))
    await asyncio.sleep(0)
    return reading


async def test_without_a_subscriber_no_deltas_are_wanted(delta):
    """Without a subscriber a run's deltas are refused, and none are kept."""
    transport = LocalTransport()
    assert not transport.is_wanted("r")
    assert not await transport.publish("r", [delta("a")])
    async with aclosing(transport.subscribe("r")) as subscription:
        reading = await reading_of(subscription)
        assert transport.is_wanted("r")
        assert not transport.is_wanted("other")
        assert await transport.publish("r", [delta("b")])
        assert [each.text for each in await reading] == ["b"]
    assert not transport.is_wanted("r")
    assert transport._logs == {}


async def test_a_late_subscriber_gets_the_answer_from_its_beginning(delta, first):
    """A late subscriber gets all deltas of the current attempt, and none of an earlier one."""
    transport = LocalTransport()
    async with aclosing(transport.subscribe("r")) as subscription, aclosing(transport.subscribe("r")) as late:
        reading = await reading_of(subscription)
        await transport.publish("r", [delta("old")])
        await reading
        await transport.publish("r", [delta("a", attempt=2)])
        await transport.publish("r", [delta("b", attempt=2, seq=1)])
        assert [each.text for each in await first(late, 2)] == ["a", "b"]
        assert [each.text for each in await first(subscription, 2)] == ["a", "b"]


async def test_deltas_of_an_abandoned_attempt_are_refused(delta, first):
    """Deltas of an earlier attempt do not get between those of the current one."""
    transport = LocalTransport()
    async with aclosing(transport.subscribe("r")) as subscription:
        reading = await reading_of(subscription)
        await transport.publish("r", [delta("new", attempt=2)])
        assert not await transport.publish("r", [delta("late", attempt=1)])
        await transport.publish("r", [delta("er", attempt=2, seq=1)])
        texts = [each.text for each in await reading]
        if len(texts) < 2:
            texts += [each.text for each in await first(subscription, 1)]
        assert texts == ["new", "er"]


async def test_a_slow_subscriber_delays_no_other(delta, first):
    """While a subscriber does not read, others do; later it gets all deltas of the current answer."""
    transport = LocalTransport()
    async with aclosing(transport.subscribe("r")) as slow, aclosing(transport.subscribe("r")) as quick:
        reading = await reading_of(slow)
        await transport.publish("r", [delta("0", seq=0)])
        await reading
        for number in range(1, 1000):
            await transport.publish("r", [delta(str(number), seq=number)])
        assert len(await first(quick, 1000)) == 1000
        assert [each.seq for each in await first(slow, 999)] == list(range(1, 1000))


async def test_threads_may_publish_and_subscribe(delta):
    """A worker in a thread of its own publishes to a subscriber in this one."""
    transport = LocalTransport()
    async with aclosing(transport.subscribe("r")) as subscription:
        reading = await reading_of(subscription)
        thread = threading.Thread(
            target=asyncio.run, args=(transport.publish("r", [delta("from elsewhere")]),)
        )
        thread.start()
        assert [each.text for each in await reading] == ["from elsewhere"]
        thread.join()

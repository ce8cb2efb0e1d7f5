"""What every transport between processes does: over a real Redis, and over a hub in a process of its own."""

import asyncio
from contextlib import aclosing

import pytest
import structlog

from sojourn.live.address import as_transport

pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture(params=["redis", "hub"])
def service(request):
    """A process that carries deltas, with its address, and `start` and `kill`."""
    return request.getfixturevalue(request.param)


@pytest.fixture
async def transport(service):
    """A transport over the service."""
    made = as_transport(service.url)
    yield made
    await made.close()


async def test_deltas_reach_early_and_late_subscribers(transport, service, delta, first):
    """Subscribers get the current answer from its beginning, in order, whenever they subscribe."""
    other = as_transport(service.url)
    async with aclosing(other.subscribe("ns/r")) as early:
        reading = asyncio.ensure_future(first(early, 2))
        assert await transport.publish("ns/r", [delta("a"), delta("ä€", seq=1)])
        assert [each.text for each in await reading] == ["a", "ä€"]
        assert await transport.publish("ns/r", [delta("b", attempt=2)])
        assert await transport.publish("ns/r", [delta("c", attempt=2, seq=1)])
        assert [each.text for each in await first(early, 2)] == ["b", "c"]
    async with aclosing(other.subscribe("ns/r")) as late:
        assert [each.text for each in await first(late, 2)] == ["b", "c"]


async def test_runs_do_not_mix(transport, delta, first):
    """A subscriber gets the deltas of its run, with all their fields, and of no other."""
    sent = delta("{", kind="tool_call", tool_name="t.x", index=3, attempt=2, plan=7)
    await transport.publish("ns/r", [delta("other")])
    await transport.publish("other/r2", [delta("other")])
    await transport.publish("ns/r2", [sent])
    async with aclosing(transport.subscribe("ns/r2")) as subscription:
        assert await first(subscription, 1) == [sent]


async def test_a_subscriber_that_does_not_read_delays_no_other(transport, delta, first):
    """A thousand large deltas reach the one that reads, and later the one that did not, from its place on."""
    async with aclosing(transport.subscribe("ns/r")) as slow, aclosing(transport.subscribe("ns/r")) as quick:
        await transport.publish("ns/r", [delta("0")])
        assert [each.seq for each in await first(slow, 1)] == [0]
        for number in range(1, 1000):
            assert await transport.publish("ns/r", [delta("x" * 1000, seq=number)])
        assert [each.seq for each in await first(quick, 1000)] == list(range(1000))
        assert [each.seq for each in await first(slow, 999)] == list(range(1, 1000))


async def test_the_text_of_a_hostile_model_arrives_unchanged(transport, delta, first):
    """Line ends, controls and characters of four bytes are carried as they are, also 8,000 of them in one delta."""
    texts = ["\n\r\0\u2028\x1b[31m", "\x00" * 8000, "\U0001f600" * 8000]
    await transport.publish("ns/r", [delta(text, seq=seq) for seq, text in enumerate(texts)])
    async with aclosing(transport.subscribe("ns/r")) as subscription:
        assert [each.text for each in await first(subscription, 3)] == texts


async def test_another_thread_may_publish(transport, delta, first):
    """A worker with an event loop of its own publishes over the same transport, beside that of this thread."""

    async def publish() -> None:
        await transport.publish("ns/other", [delta("b")])
        await transport.close()

    assert await transport.publish("ns/r", [delta("a")])
    await asyncio.to_thread(asyncio.run, publish())
    assert await transport.publish("ns/r", [delta("c", seq=1)])
    for topic, texts in (("ns/r", ["a", "c"]), ("ns/other", ["b"])):
        async with aclosing(transport.subscribe(topic)) as subscription:
            assert [each.text for each in await first(subscription, len(texts))] == texts


async def test_a_subscription_survives_a_restart(transport, service, delta, first):
    """After the service was killed and has restarted without its data, a subscriber gets the next answer."""
    async with aclosing(transport.subscribe("ns/r")) as subscription:
        await transport.publish("ns/r", [delta("a")])
        await first(subscription, 1)
        service.kill()
        await service.start()
        writer = as_transport(service.url)
        assert await writer.publish("ns/r", [delta("b", plan=2)])
        assert [each.text for each in await first(subscription, 1)] == ["b"]
        await writer.close()


async def test_a_dead_service_is_noticed_at_once(transport, service, delta):
    """The first deltas after its death are refused, none are wanted for a while, and one line is logged."""
    assert await transport.publish("ns/r", [delta("a")])
    service.kill()
    with structlog.testing.capture_logs() as logs:
        assert not await transport.publish("ns/r", [delta("b", seq=1)])
        assert not transport.is_wanted("ns/r")
        assert not await transport.publish("ns/r", [delta("c", seq=2)])
    assert [line["event"] for line in logs] == ["live_text_unavailable"]

"""Deltas between processes, over a real Redis."""

import asyncio
from contextlib import aclosing

import pytest
import structlog
from redis.asyncio import Redis

from sojourn import App
from sojourn.errors import DefinitionError
from sojourn.live import LiveTransport, LocalTransport
from sojourn.live import redis as module
from sojourn.live.address import as_transport
from sojourn.live.redis import RedisTransport
from sojourn.live.unix import UnixTransport


@pytest.fixture
async def transport(redis):
    """A transport over a Redis server."""
    made = RedisTransport(redis.url)
    yield made
    await made.close()


async def test_a_stream_is_bounded_and_expires(transport, redis, delta, monkeypatch):
    """A run has one key with a prefix, which holds only the current answer and expires after 15 minutes."""
    await transport.publish("ns/r", [delta("old", seq=seq) for seq in range(3)])
    await transport.publish("ns/r", [delta("x", plan=2, seq=seq) for seq in range(2)])
    async with Redis.from_url(redis.url) as client:
        assert await client.keys() == [b"sojourn:live:ns/r"]
        assert await client.xlen("sojourn:live:ns/r") == 2
        assert 0 < await client.ttl("sojourn:live:ns/r") <= 900
        await client.delete("sojourn:live:ns/r")
        monkeypatch.setattr(module, "MAX_DELTAS", 1_000)
        await transport.publish("ns/r", [delta("x", seq=1 + number) for number in range(3_000)])
        assert 1_000 <= await client.xlen("sojourn:live:ns/r") < 1_200


async def test_entries_that_are_no_deltas_are_ignored(transport, redis, delta, first):
    """Entries that another program has written to the stream end no subscription."""
    async with Redis.from_url(redis.url) as client, aclosing(transport.subscribe("ns/r")) as subscription:
        await client.xadd("sojourn:live:ns/r", {"d": "{}"})
        await client.xadd("sojourn:live:ns/r", {"other": b"\xff"})
        await transport.publish("ns/r", [delta("a", seq=1)])
        assert [each.text for each in await first(subscription, 1)] == ["a"]


@pytest.fixture
async def hanging_up(monkeypatch):
    """A transport of a server that closes every connection, and its connections; subscribers retry at once."""
    monkeypatch.setattr(module, "RETRY", 0.0)
    connections = []

    def hang_up(_reader, writer):
        connections.append(writer)
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    transport = RedisTransport(f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    yield transport, connections
    await transport.close()
    server.close()
    await server.wait_closed()


async def test_a_subscriber_can_be_cancelled_at_any_moment(hanging_up):
    """No cancellation is lost, wherever in the Redis client it arrives."""
    transport, connections = hanging_up
    for number in range(200):
        async with aclosing(transport.subscribe("ns/r")) as subscription:
            reading = asyncio.ensure_future(anext(subscription))
            before = len(connections)
            async with asyncio.timeout(60):
                while len(connections) < before + 2:
                    await asyncio.sleep(0)
            for _ in range(number % 40):
                await asyncio.sleep(0)
            reading.cancel()
            done, _ = await asyncio.wait({reading}, timeout=60)
            assert done


async def test_an_unavailable_redis_is_logged_once_and_not_written_to(hanging_up, delta, until):
    """Nothing raises, no deltas are wanted for a while, and publishers and subscribers share one warning."""
    transport, connections = hanging_up
    assert transport.is_wanted("ns/r")
    with structlog.testing.capture_logs() as logs:
        assert not await transport.publish("ns/r", [delta("a")])
        assert not transport.is_wanted("ns/r")
        assert not await transport.publish("ns/r", [delta("a")])
        async with aclosing(transport.subscribe("ns/r")) as subscription:
            reading = asyncio.ensure_future(anext(subscription))
            await until(lambda: len(connections) > 3)
            assert not reading.done()
            reading.cancel()
            await asyncio.wait({reading})
    assert [line["event"] for line in logs] == ["live_text_unavailable"]


async def test_no_message_holds_the_password(delta):
    """Neither the error of an invalid URL nor the warning of an unavailable server holds the URL's password."""
    with pytest.raises(DefinitionError) as refused:
        as_transport("http://:geheim@localhost")
    assert "geheim" not in str(refused.value)
    for address in ("redis://:geheim@localhost:port/0", "redis://:geheim/@localhost:1/0"):
        with pytest.raises(DefinitionError) as refused:
            as_transport(address)
        assert "geheim" not in str(refused.value)
    transport = RedisTransport("redis://:geheim@127.0.0.1:1/0")
    with structlog.testing.capture_logs() as logs:
        await transport.publish("ns/r", [delta("a")])
    assert "127.0.0.1:1" in str(logs)
    assert "geheim" not in str(logs)


def test_the_transport_is_the_given_one_or_the_setting_s(monkeypatch):
    """An app uses the given object or URL, else `SOJOURN_LIVE`, else one transport for the whole process."""
    from sojourn import Agent, PlanResult

    async def plan(turn):
        return PlanResult.final("x")

    def app(**options) -> App:
        return App(agents=[Agent("test.agent", planner=plan)], **options)

    own = LocalTransport()
    assert app(live=own).live is own
    assert app().live is app().live
    assert isinstance(app().live, LocalTransport)
    for url in ("redis://localhost", "redis+unix:///run/redis.sock?db=1"):
        assert isinstance(app(live=url).live, RedisTransport)
    assert isinstance(app(live="unix:///run/hub.sock").live, UnixTransport)
    monkeypatch.setenv("SOJOURN_LIVE", "redis://localhost")
    assert isinstance(app().live, RedisTransport)
    assert app(live=own).live is own
    for transport in (own, app().live):
        assert isinstance(transport, LiveTransport)

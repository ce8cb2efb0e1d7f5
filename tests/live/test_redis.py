"""Deltas between processes, over a real Redis."""

import asyncio
from contextlib import aclosing

import pytest
import structlog
from redis.asyncio import Redis

from sojourn import App, DefinitionError
from sojourn.live import LiveTransport, LocalTransport
from sojourn.live import redis as module
from sojourn.live.address import as_transport
from sojourn.live.redis import RedisTransport


@pytest.fixture
async def transport(redis):
    """A transport of a real Redis."""
    made = RedisTransport(redis.url)
    yield made
    await made.close()


async def test_what_is_published_is_read_by_others(transport, redis, delta, first):
    """In order, by those who were there and those who come late: the present answer from its beginning."""
    other = RedisTransport(redis.url)
    async with aclosing(other.subscribe("ns/r")) as news:
        reading = asyncio.ensure_future(first(news, 2))
        assert await transport.publish("ns/r", [delta("a"), delta("ä€", seq=1)])
        assert [each.text for each in await reading] == ["a", "ä€"]
        assert await transport.publish("ns/r", [delta("b", attempt=2)])
        assert await transport.publish("ns/r", [delta("c", attempt=2, seq=1)])
        assert [each.text for each in await first(news, 2)] == ["b", "c"]
    async with aclosing(other.subscribe("ns/r")) as late:
        assert [each.text for each in await first(late, 2)] == ["b", "c"]


async def test_what_is_kept_is_bounded_and_expires(transport, redis, delta, monkeypatch):
    """One key for a run, with a prefix; only the present answer; gone after a quarter of an hour."""
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


async def test_what_others_write_there_is_passed_over(transport, redis, delta, first):
    """A stranger's entries are no deltas, and end nobody's stream."""
    async with Redis.from_url(redis.url) as client, aclosing(transport.subscribe("ns/r")) as news:
        await client.xadd("sojourn:live:ns/r", {"d": "{}"})
        await client.xadd("sojourn:live:ns/r", {"other": b"\xff"})
        await transport.publish("ns/r", [delta("a", seq=1)])
        assert [each.text for each in await first(news, 1)] == ["a"]


@pytest.fixture
async def hanging_up(monkeypatch):
    """A transport of a server that hangs up on everybody, and who asked it; readers try again at once."""
    monkeypatch.setattr(module, "RETRY", 0.0)
    asked = []

    def hang_up(_reader, writer):
        asked.append(writer)
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    transport = RedisTransport(f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    yield transport, asked
    await transport.close()
    server.close()
    await server.wait_closed()


async def test_a_reader_can_be_ended_at_any_moment(hanging_up):
    """No cancellation is lost, wherever in the client it arrives."""
    transport, asked = hanging_up
    for number in range(200):
        async with aclosing(transport.subscribe("ns/r")) as news:
            reading = asyncio.ensure_future(anext(news))
            before = len(asked)
            async with asyncio.timeout(20):
                while len(asked) < before + 2:
                    await asyncio.sleep(0)
            for _ in range(number % 40):
                await asyncio.sleep(0)
            reading.cancel()
            done, _ = await asyncio.wait({reading}, timeout=20)
            assert done


async def test_one_that_fails_is_told_once_and_asked_no_more(hanging_up, delta, until):
    """Nothing raises, nothing is wanted for a while, one warning for writers and readers alike."""
    transport, asked = hanging_up
    assert transport.is_wanted("ns/r")
    with structlog.testing.capture_logs() as logs:
        assert not await transport.publish("ns/r", [delta("a")])
        assert not transport.is_wanted("ns/r")
        assert not await transport.publish("ns/r", [delta("a")])
        async with aclosing(transport.subscribe("ns/r")) as news:
            reading = asyncio.ensure_future(anext(news))
            await until(lambda: len(asked) > 3)
            assert not reading.done()
            reading.cancel()
            await asyncio.wait({reading})
    assert [line["event"] for line in logs] == ["live_text_unavailable"]


async def test_a_subscriber_bridges_a_restart(transport, redis, delta, first):
    """It goes on with the next answer when Redis is back, whatever was lost with the old one."""
    async with aclosing(transport.subscribe("ns/r")) as news:
        await transport.publish("ns/r", [delta("a")])
        await first(news, 1)
        redis.kill()
        await redis.start()
        writer = RedisTransport(redis.url)
        assert await writer.publish("ns/r", [delta("b", plan=2)])
        assert [each.text for each in await first(news, 1)] == ["b"]
        await writer.close()


async def test_a_password_is_not_told(delta):
    """Neither by an address that cannot be read nor by one where nobody answers."""
    with pytest.raises(DefinitionError) as said:
        as_transport("http://:geheim@localhost")
    assert "geheim" not in str(said.value)
    for address in ("redis://:geheim@localhost:port/0", "redis://:geheim/@localhost:1/0"):
        with pytest.raises(DefinitionError) as said:
            as_transport(address)
        assert "geheim" not in str(said.value)
    transport = RedisTransport("redis://:geheim@127.0.0.1:1/0")
    with structlog.testing.capture_logs() as logs:
        await transport.publish("ns/r", [delta("a")])
    assert "127.0.0.1:1" in str(logs)
    assert "geheim" not in str(logs)


def test_the_transport_is_the_given_one_or_the_setting_s(monkeypatch):
    """An object, an address, `SOJOURN_LIVE`, and else one for the whole process."""
    from sojourn import Agent, PlanResult

    async def plan(turn):
        return PlanResult.final("x")

    def app(**options) -> App:
        return App(agents=[Agent("test.agent", planner=plan)], **options)

    own = LocalTransport()
    assert app(live=own).live is own
    assert app().live is app().live
    assert isinstance(app().live, LocalTransport)
    assert isinstance(app(live="redis://localhost").live, RedisTransport)
    monkeypatch.setenv("SOJOURN_LIVE", "redis://localhost")
    assert isinstance(app().live, RedisTransport)
    assert app(live=own).live is own
    for kind in (own, app().live):
        assert isinstance(kind, LiveTransport)

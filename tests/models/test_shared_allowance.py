"""Limits of a provider's key that workers share, over a real Redis."""

import asyncio
import json
import os
import shutil
import time
from contextlib import AsyncExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.exceptions import ModelRateLimitError
from redis.asyncio import Redis
from structlog.testing import capture_logs

from sojourn.errors import DefinitionError
from sojourn.models import shared_allowance as module
from sojourn.models.allowance import Allowance
from sojourn.models.rate_limits import Limiter, RequestLimits, limiter_for
from sojourn.models.shared_allowance import SharedAllowance
from tests.live.conftest import RedisServer

WORKERS = 4


@pytest.fixture
async def redis(processes, tmp_path, monkeypatch):
    """A Redis server, which a busy machine may keep from answering within a second."""
    if shutil.which("redis-server") is None:
        reason = "there is no Redis on this machine: apt-get install redis-server"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    monkeypatch.setattr(module, "PATIENCE", 60.0)
    server = RedisServer(tmp_path)
    await server.start()
    yield server
    server.kill()


@pytest.fixture
def fleet(redis):
    """Make the limiters of several workers for one key."""

    def make(**limits) -> list[Limiter]:
        return [
            Limiter("openai", RequestLimits(**limits), shared=SharedAllowance(redis.url, "openai"))
            for _ in range(WORKERS)
        ]

    return make


async def send(limiter, tokens, sent):
    async with limiter.request(tokens):
        sent.append(time.monotonic())


async def refuse(limiter):
    async with limiter.request(1):
        raise ModelRateLimitError("gpt-5", "slow down", retry_after=2.0)


async def test_workers_use_one_rate_together(fleet, redis):
    """However many workers there are, they send what the rate allows, nearly all of it, in the order of their requests."""
    workers, sent = fleet(tokens_per_minute=60_000), list[float]()
    await send(workers[0], 60_000, [])  # the tokens of a minute may be sent at once
    began = time.monotonic()
    async with asyncio.timeout(60):
        await asyncio.gather(*(send(worker, 100, sent) for worker in workers for _ in range(8)))
    took = max(sent) - began
    assert 0.95 * 3.2 <= took <= 1.5 * 3.2, "32 requests of 100 tokens, at 1,000 a second"
    async with Redis.from_url(redis.url) as client:
        (key,) = await client.keys()
        assert key.startswith(b"sojourn:limits:")
        assert b"openai" not in key
        assert 0 < await client.ttl(key) <= 600


async def test_a_refusal_on_one_worker_holds_all(fleet):
    """After a `Retry-After` no worker sends before it has passed, also one that has waited for tokens already."""
    workers, sent = fleet(tokens_per_minute=60_000), list[float]()
    await send(workers[0], 60_000, [])
    waiting = [asyncio.create_task(send(worker, 400, sent)) for worker in workers[1:]]
    refused = time.monotonic()
    with pytest.raises(ModelRateLimitError):
        await refuse(workers[0])
    async with asyncio.timeout(60):
        await asyncio.gather(*waiting)
    late = [each for each in sent if each > refused + 0.3]
    assert late
    assert min(late) >= refused + 2.0
    assert workers[3].allowance.rate is not None
    assert workers[3].allowance.rate < 60_000


async def test_a_worker_without_redis_has_its_share(fleet, redis, monkeypatch):
    """While Redis is away, a worker keeps to the last rate divided by the workers, says so once, and shares again afterwards."""
    monkeypatch.setattr(module, "PAUSE", 0.2)
    workers = fleet(tokens_per_minute=60_000)
    for worker in workers:
        await send(worker, 10, [])
    await send(workers[0], 10, [])
    redis.kill()
    with capture_logs() as logs:
        for _ in range(3):
            await send(workers[0], 10, [])
    assert workers[0].allowance.rate == 60_000 / WORKERS
    assert [line["event"] for line in logs].count("model_limits_alone") == 1
    await redis.start()
    await asyncio.sleep(0.3)
    with capture_logs() as logs:
        await send(workers[0], 10, [])
    assert [line["event"] for line in logs] == ["model_limits_shared_again"]
    assert workers[0].allowance.rate == 60_000


async def test_a_cancelled_wait_gives_its_tokens_back(fleet):
    """Tokens that were reserved for a request that is not sent are there for the others."""
    one, other, *_ = fleet(tokens_per_minute=60_000)
    await send(one, 60_000, [])
    waiting = asyncio.create_task(send(one, 20_000, []))
    async with AsyncExitStack() as held:
        assert other._shared
        await held.enter_async_context(other._shared.connected())
        while (await other._shared.reserve(1, longest=0.0) or 0) < 10:
            await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await other._shared.reserve(1, longest=0.0) or 0) < 10


async def test_a_long_refusal_outlasts_the_time_for_which_redis_keeps_the_rest(redis, fleet, monkeypatch):
    """A provider that says to come back in hours is not asked before, though no worker changes the allowance."""
    monkeypatch.setattr(module, "KEPT", 1.0)
    one, *_ = fleet(tokens_per_minute=60_000)
    assert one._shared
    async with one._shared.connected():
        await one._shared.count_refusal(0.0, retry_after=3_600.0)
    async with Redis.from_url(redis.url, decode_responses=True) as client:
        (key,) = await client.keys()
        assert 3_600_000 < await client.pttl(key) < 3_700_000


async def test_the_strictest_rate_of_the_present_workers_applies(redis):
    """A rate that no present worker has any more no longer applies, after a minute without that worker."""
    strict, lax = [
        Limiter("x", RequestLimits(tokens_per_minute=rate), shared=SharedAllowance(redis.url, "x"))
        for rate in (600, 6_000)
    ]
    await send(strict, 10, [])
    await send(lax, 10, [])
    assert lax.allowance.full_rate == 600
    async with Redis.from_url(redis.url, decode_responses=True) as client:
        (key,) = await client.keys()
        state = json.loads(await client.get(key))
        state["workers"][strict._shared._worker][0] -= module.SEEN
        await client.set(key, json.dumps(state))
    await send(lax, 10, [])
    assert lax.allowance.full_rate == 6_000


@given(st.floats(-1e6, 1e6), st.lists(st.floats(0, 1e4), min_size=1, max_size=5))
def test_another_clock_changes_no_wait(ahead, taken):
    """An allowance has the same waits by a clock that is ahead, also after JSON."""
    allowance = Allowance()
    allowance.limit(6_000)
    for second, tokens in enumerate(taken):
        allowance.take(tokens, float(second))
    allowance.count_refusal(10.0, sent=9.0, retry_after=3.0)
    moved = Allowance(**allowance.to_json()).moved_by(ahead)
    for now in (10.0, 12.5, 40.0):
        assert moved.wait(500, now + ahead) == pytest.approx(allowance.wait(500, now), abs=1e-3)


@pytest.mark.parametrize("value", ["everywhere", "http://x", "fleet", "redis://:secret@host:port/0"])
async def test_a_setting_that_names_no_redis_is_refused(standin, monkeypatch, value):
    """A wrong value is an error that does not quote it; `fleet` needs a Redis for live text."""
    monkeypatch.setenv("SOJOURN_MODEL_LIMITS", value)
    with pytest.raises(DefinitionError, match="SOJOURN_MODEL_LIMITS") as refused:
        limiter_for(standin.model("openai-chat", api_key=value))
    assert "secret" not in str(refused.value)


async def test_the_setting_shares_the_limits_of_a_key(standin, redis, monkeypatch):
    """With `fleet` the Redis of live text is used, and each key has an allowance of its own."""
    monkeypatch.setenv("SOJOURN_LIVE", redis.url)
    monkeypatch.setenv("SOJOURN_MODEL_LIMITS", "fleet")
    for key in ("one", "two"):
        await send(limiter_for(standin.model("openai-chat", api_key=key)), 10, [])
    async with Redis.from_url(redis.url) as client:
        assert len(await client.keys("sojourn:limits:*")) == 2

"""Requests that wait: they end with their client, count as streams, and lose nothing that was sent."""

import asyncio
import contextlib
import uuid

import pytest
from structlog.testing import capture_logs

from sojourn import Principal
from sojourn.asgi import create_app
from sojourn.http import ApiKeys, SecuritySettings
from sojourn.http.security import disconnect
from sojourn.http.security.keys import create_key, revoke_key
from tests.http.conftest import Shop, listening
from tests.http.every_protocol import PROTOCOLS
from tests.http.requests_that_wait import STREAMING, WAITING, answering, connected, request_of, requests


@pytest.fixture
async def sleeper(served: Shop) -> str:
    """A run that goes on for a day."""
    run_id = await served.start("sleep")
    await served.status_when(served.client.get_run(run_id), lambda status: status.phase == "waiting")
    return run_id


async def test_nothing_is_left_of_clients_that_vanish(served, sleeper, until):
    """Clients of all kinds vanish while they wait: no task, subscription or follower is left of them, and the run goes on."""
    kinds, before = 10 * WAITING, set(answering())
    service, sessions = served.web.state.service, [uuid.uuid4().hex for _ in range(10)]
    service.feeds._linger = 0.1
    async with contextlib.AsyncExitStack() as stack:
        connections = [
            await stack.enter_async_context(
                connected(served.url, *request_of(kind, "sleep", run_id=sleeper, session_id=sessions[n % 10]))
            )
            for n, kind in enumerate(kinds)
        ]
        await until(lambda: requests() == len(kinds))
        await until(lambda: sum(service.feeds._subscribers.values()) >= len(kinds) // 2)
        for connection in connections:
            await connection.vanish()
        assert service.metrics.streams == 0  # who waits for an answer has no stream
    await until(lambda: not requests())
    await until(lambda: not service.feeds._feeds)
    assert not service.feeds._subscribers
    await until(lambda: not set(answering()) - before)
    assert (await served.client.get_run(sleeper).status()).status == "running"


@pytest.mark.parametrize("kind", [*(kind for kind in WAITING if kind != "output"), "a2a as a stream"])
async def test_what_a_client_sent_before_it_vanished_is_delivered(served, kind, until):
    """A client that is gone as soon as it has sent its message loses the answer, and not the message, nor the run."""
    session_id = uuid.uuid4().hex
    session = served.client.session("shop.clerk", session_id)
    sent = request_of(kind, "hello", session_id=session_id)
    with capture_logs() as lines:
        async with connected(served.url, *sent) as connection:
            await until(requests)
            await connection.vanish()
        await until(lambda: not requests())

    async def answers() -> bool:
        return await session.run.exists() and (await session.run.status()).turns == 1

    await until(answers)
    status = await served.status_when(session.run, lambda status: status.status == "idle")
    assert status.turns == 1
    (line,) = [line for line in lines if line["event"] == "decision"]
    assert line["status"] in (200, 201, 499)


async def test_a_change_whose_client_has_left_is_a_line_of_the_audit(served, until):
    """It has the status 499, since there was no answer; a client that has only read leaves no line."""
    session_id = uuid.uuid4().hex
    session = served.client.session("shop.clerk", session_id)
    run_id = await served.start("sleep")
    with capture_logs() as lines:
        asked = (
            request_of("message", "sleep", session_id=session_id),
            request_of("output", "", run_id=run_id),
        )
        for each in asked:
            async with connected(served.url, *each) as connection:
                await until(lambda: requests() == 1)
                if each[0] == "POST":
                    await until(session.run.exists)
                    await served.status_when(session.run, lambda status: status.phase == "waiting")
                await connection.vanish()
            await until(lambda: not requests())
    (line,) = [line for line in lines if line["event"] == "decision"]
    assert (line["status"], line["path"]) == (499, f"/v1/sessions/shop.clerk/{session_id}/messages")


# How many may wait.


async def by_name(request):
    """The test's own authentication: the key is the subject."""
    name = request.headers.get("authorization", "").removeprefix("Bearer ")
    return Principal(subject=name, roles=["user"]) if name else None


@contextlib.asynccontextmanager
async def secured(served: Shop, shop, **limits):
    """The shop with limits; the key is the subject."""
    web = create_app(shop.app, client=served.client, auth=by_name, security=SecuritySettings(**limits))
    async with listening(web) as url:
        yield url, web.state.service.metrics


@pytest.mark.parametrize("kind", WAITING)
async def test_who_waits_for_too_much_is_refused_before_anything_is_sent(served, shop, sleeper, until, kind):
    """A request that waits takes the place of a stream; one too many is refused in its protocol's shape, and has sent nothing."""
    async with secured(served, shop, streams=1) as (url, metrics):
        async with connected(url, *request_of("output", "", run_id=sleeper), key="ana") as first:
            await until(lambda: metrics.waiting == 1)
            session_id = uuid.uuid4().hex
            asked = request_of(kind, "hello", run_id=sleeper, session_id=session_id)
            async with connected(url, *asked, key="ana") as second:
                answer = await asyncio.wait_for(second.answer(), 60)
            assert b"too_many_streams" in answer.content
            if kind in ("a2a", "mcp of 2026"):
                assert answer.status_code == 200
            else:
                assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
            if kind in ("chat", "response"):
                assert answer.json()["error"]["type"] == "rate_limit_error"
            assert not await served.client.session("shop.clerk", session_id).run.exists()
            async with connected(url, *request_of("output", "", run_id=sleeper), key="bo"):
                await until(lambda: metrics.waiting == 2)
            await first.vanish()
        await until(lambda: not requests())
        if kind != "output":
            async with connected(url, *asked, key="ana") as again:
                answer = await asyncio.wait_for(again.answer(), 60)
        assert b"hello" in answer.content or kind == "output"


@pytest.mark.parametrize("kind", [kind for kind in STREAMING if kind != "events"])
async def test_a_stream_too_many_is_refused_before_its_message_is_sent(served, shop, sleeper, until, kind):
    """What a client would send again after a refusal has not been sent: a conversation without it does not exist."""
    session_id = uuid.uuid4().hex
    async with (
        secured(served, shop, streams=1) as (url, metrics),
        connected(url, *request_of("output", "", run_id=sleeper), key="ana"),
    ):
        await until(lambda: metrics.waiting == 1)
        asked = request_of(kind, "hello", session_id=session_id)
        async with connected(url, *asked, key="ana") as second:
            answer = await asyncio.wait_for(second.answer(), 60)
        assert answer.status_code == (200 if PROTOCOLS[kind].is_jsonrpc else 429)
        assert "too_many_streams" in answer.text
        assert not await served.client.session("shop.clerk", session_id).run.exists()


# Who is let in no longer.


async def test_what_lasts_ends_with_its_key(served, shop, tmp_path, until, monkeypatch):
    """Once a key is revoked, streams of every protocol are cut, without their end, and who waits gets 401; nothing is left of them, and the runs go on."""
    monkeypatch.setattr(disconnect, "RECHECK", 0.3)
    file = tmp_path / "keys.json"
    _, ana = create_key(file, "ana", roles=["user"])
    web = create_app(shop.app, client=served.client, auth=ApiKeys(file))
    metrics = web.state.service.metrics
    async with listening(web) as url, contextlib.AsyncExitStack() as stack:
        started = {"agent_id": "shop.clerk", "input": "sleep"}
        async with connected(url, "POST", "/v1/runs", {}, started, key=ana) as starting:
            run_id = (await starting.answer()).json()["run_id"]
        asked = {kind: request_of(kind, "sleep", run_id=run_id) for kind in WAITING}
        asked |= {kind: request_of(kind, "sleep", run_id=run_id) for kind in STREAMING}
        open_ = {
            kind: await stack.enter_async_context(connected(url, *each, key=ana))
            for kind, each in asked.items()
        }
        await until(lambda: metrics.waiting == len(WAITING))
        await until(lambda: requests() == len(asked))
        await asyncio.gather(*(open_[kind].begins() for kind in ("mcp", *STREAMING)))
        await asyncio.sleep(1)
        assert requests() == len(asked)  # it was looked several times
        revoke_key(file, "ana")
        async with asyncio.timeout(60):
            found = dict(
                zip(open_, await asyncio.gather(*(each.answer() for each in open_.values())), strict=True)
            )
        await until(lambda: not requests())
        for kind in ("output", "message"):
            assert (found[kind].status_code, found[kind].json()["code"]) == (401, "unauthenticated")
        for kind in ("chat", "response"):
            told = found[kind].status_code, found[kind].json()["error"]["type"]
            assert told == (401, "authentication_error")
        assert found["a2a"].json()["error"]["data"][0]["metadata"]["code"] == "unauthenticated"
        assert found["mcp of 2026"].status_code == 401
        for kind in ("mcp", *STREAMING):
            told = found[kind].status_code, found[kind].extensions["is_whole"]
            assert told == (200, False), (kind, found[kind].text)
        for each in asked.values():
            async with connected(url, *each, key=ana) as again:
                assert (await again.answer()).status_code == 401
        assert (metrics.waiting, metrics.streams) == (0, 0)
    assert (await served.client.get_run(run_id).status()).status == "running"

"""Limits: one principal cannot take a process from the others, and learns when to come back."""

import asyncio

import pytest

from sojourn import Principal
from sojourn.http.locks import limits
from sojourn.http.locks.limits import Limited
from sojourn.http.locks.locked import Locks
from sojourn.http.locks.principals import remember


async def by_name(request):
    tenant, _, name = request.headers.get("authorization", "").removeprefix("Bearer ").rpartition("/")
    return Principal(subject=name, tenant=tenant, roles=["user"])


def as_(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}"}


async def test_requests_of_one_principal_are_limited(serve_web):
    """Those over the burst are answered with 429 and the seconds to wait; others, and another tenant's namesake, are not."""
    client = await serve_web(auth=by_name, locks=Locks(requests=0.5, burst=3))
    for _ in range(3):
        assert (await client.get("/who", headers=as_("acme/ana"))).status_code == 200
    answer = await client.get("/who", headers=as_("acme/ana"))
    assert (answer.status_code, answer.json()["code"]) == (429, "too_many_requests")
    assert answer.headers["retry-after"] in ("1", "2")
    for other in ("acme/bo", "globex/ana", "ana"):
        assert (await client.get("/who", headers=as_(other))).status_code == 200
    assert (await client.get("/health")).status_code == 200


async def test_requests_are_counted_by_the_second():
    """After a pause there are as many again as the rate says, and never more than the burst."""
    now = 0.0
    passed = []

    async def app(_scope, _receive, _send):
        passed.append(now)

    limited = Limited(app, requests=2, burst=4, streams=1, clock=lambda: now)

    async def ask(times: int) -> int:
        before, refused = len(passed), []

        async def send(message):
            refused.append(message)

        for _ in range(times):
            scope = {"type": "http", "headers": [], "path": "/", "method": "GET"}
            remember(scope, Principal(subject="ana"))
            await limited(scope, None, send)
        return len(passed) - before

    assert await ask(6) == 4
    now = 1.0
    assert await ask(6) == 2
    now = 1.25
    assert await ask(1) == 0
    now = 1.5
    assert await ask(1) == 1
    now = 1_000.0
    assert await ask(9) == 4


async def test_only_so_many_principals_are_counted(monkeypatch):
    """However many come, the memory for them is bounded."""
    monkeypatch.setattr(limits, "MAX_KNOWN", 10)

    async def app(_scope, _receive, _send):
        pass

    limited = Limited(app, requests=1, burst=1, streams=1)
    for n in range(50):
        scope = {"type": "http", "headers": [], "path": "/", "method": "GET"}
        remember(scope, Principal(subject=f"s-{n}"))
        await limited(scope, None, None)
    assert len(limited._buckets) == 10


async def test_streams_of_one_principal_are_limited(serve_web, until):
    """A stream too many is answered with 429; one that ends makes room; ordinary answers and other principals do not count."""
    client = await serve_web(auth=by_name, locks=Locks(streams=2, requests=1_000, burst=1_000))

    async def hold(done: asyncio.Event, opened: asyncio.Event) -> None:
        async with client.stream("GET", "/events", headers=as_("ana")) as answer:
            assert answer.status_code == 200
            async for _ in answer.aiter_lines():
                opened.set()
                if done.is_set():
                    return

    ends, begun = [asyncio.Event() for _ in range(2)], [asyncio.Event() for _ in range(2)]
    held = [asyncio.create_task(hold(*pair)) for pair in zip(ends, begun, strict=True)]
    await asyncio.gather(*(each.wait() for each in begun))
    answer = await client.get("/events", headers=as_("ana"))
    assert (answer.status_code, answer.json()["code"]) == (429, "too_many_streams")
    assert answer.headers["retry-after"] == "1"
    assert (await client.get("/who", headers=as_("ana"))).status_code == 200
    async with client.stream("GET", "/events", headers=as_("bo")) as other:
        assert other.status_code == 200
    ends[0].set()
    await held[0]

    async def has_room() -> bool:
        async with client.stream("GET", "/events", headers=as_("ana")) as again:
            return again.status_code == 200

    await until(has_room)
    ends[1].set()
    await held[1]


async def test_without_authentication_nothing_is_counted(serve_web):
    """The one who is at the machine is not limited."""
    client = await serve_web(locks=Locks(requests=0.1, burst=1, streams=0))
    assert [(await client.get("/who")).status_code for _ in range(5)] == [200] * 5
    async with client.stream("GET", "/events") as answer:
        assert answer.status_code == 200


async def test_an_application_that_fails_in_a_stream_still_fails():
    """Only the refusal of a stream is swallowed; an error of the application goes on to who serves it."""

    async def app(_scope, _receive, send):
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [(b"content-type", b"text/event-stream")],
            }
        )
        raise RuntimeError("mine")

    async def send(_message):
        pass

    limited = Limited(app, requests=10, burst=10, streams=1)
    for _ in range(3):  # a stream that failed is no longer counted
        scope = {"type": "http", "headers": [], "path": "/", "method": "GET"}
        remember(scope, Principal(subject="ana"))
        with pytest.raises(RuntimeError, match="mine"):
            await limited(scope, None, send)

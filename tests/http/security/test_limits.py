"""Limits: one principal cannot take a process from the others, and learns when to come back."""

import asyncio

import pytest
from fastapi import Request
from fastapi.responses import StreamingResponse

from sojourn import Principal
from sojourn.http.problems import Problem
from sojourn.http.security import limits
from sojourn.http.security.limits import RateLimitMiddleware, TokenBuckets
from sojourn.http.security.middleware import SecuritySettings
from sojourn.http.security.principals import Asking, bind_principal
from sojourn.http.security.requests import address_of
from tests.http.security.conftest import make_web


async def by_name(request):
    tenant, _, name = request.headers.get("authorization", "").removeprefix("Bearer ").rpartition("/")
    return Principal(subject=name, tenant=tenant, roles=["user"])


def as_(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}"}


async def test_requests_of_one_principal_are_limited(serve_web):
    """Those over the burst are answered with 429 and the seconds to wait; others, and another tenant's namesake, are not."""
    client = await serve_web(auth=by_name, settings=SecuritySettings(requests=0.5, burst=3))
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

    limited = RateLimitMiddleware(app, requests=2, burst=4, streams=1, clock=lambda: now)

    async def ask(times: int) -> int:
        before, refused = len(passed), []

        async def send(message):
            refused.append(message)

        for _ in range(times):
            scope = {"type": "http", "headers": [], "path": "/", "method": "GET"}
            bind_principal(scope, Principal(subject="ana"))
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

    limited = RateLimitMiddleware(app, requests=1, burst=1, streams=1)
    for n in range(50):
        scope = {"type": "http", "headers": [], "path": "/", "method": "GET"}
        bind_principal(scope, Principal(subject=f"s-{n}"))
        await limited(scope, None, None)
    assert len(limited._buckets) == 10


async def test_streams_of_one_principal_are_limited(serve_web, until):
    """A stream too many is answered with 429; one that ends makes room; ordinary answers and other principals do not count."""
    client = await serve_web(auth=by_name, settings=SecuritySettings(streams=2, requests=1_000, burst=1_000))

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
    client = await serve_web(settings=SecuritySettings(requests=0.1, burst=1, streams=0))
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

    limited = RateLimitMiddleware(app, requests=10, burst=10, streams=1)
    for _ in range(3):  # a stream that failed is no longer counted
        scope = {"type": "http", "headers": [], "path": "/", "method": "GET"}
        bind_principal(scope, Principal(subject="ana"))
        with pytest.raises(RuntimeError, match="mine"):
            await limited(scope, None, send)


async def nobody(_request):
    """An authentication that knows nobody."""


async def test_requests_of_nobody_known_are_counted_by_address(serve_web, caplog):
    """Open paths, refused credentials, foreign hosts and preflights share what an address has; a refusal for it fills no log."""
    settings = SecuritySettings(
        address_requests=0.01, address_burst=5, origins=["https://app.example.org"], hosts=["127.0.0.1"]
    )
    client = await serve_web(auth=nobody, settings=settings)
    ahead = {"Origin": "https://app.example.org", "Access-Control-Request-Method": "GET"}
    asked = [
        await client.get("/openapi.json"),
        await client.get("/who"),
        await client.get("/nothing"),
        await client.get("/who", headers={"Host": "elsewhere.example"}),
        await client.options("/who", headers=ahead),
    ]
    assert [each.status_code for each in asked] == [200, 401, 401, 421, 200]
    caplog.clear()
    for path in ("/openapi.json", "/who", "/docs"):
        answer = await client.get(path)
        assert (answer.status_code, answer.json()["code"]) == (429, "too_many_requests")
        assert int(answer.headers["retry-after"]) > 50
    assert (await client.options("/who", headers=ahead)).status_code == 429
    assert "too_many_requests" not in caplog.text
    assert [(await client.get("/health")).status_code for _ in range(9)] == [200] * 9, (
        "a balancer asks from there too"
    )


async def test_a_refused_token_is_counted_too(serve_web):
    """An authentication that says by a problem why it lets nobody in, or fails, is asked no more often than one that says nothing."""

    async def refuses(request):
        if "boom" in request.headers:
            raise RuntimeError("mine")
        raise Problem(401, "invalid_token", "the token has expired", then="Get another one.")

    client = await serve_web(auth=refuses, settings=SecuritySettings(address_requests=0.01, address_burst=2))
    asked = [await client.get("/who", headers=each) for each in ({}, {"boom": "1"}, {}, {"boom": "1"})]
    assert [each.status_code for each in asked] == [401, 500, 429, 429]


async def test_a_principal_is_let_in_from_an_address_that_has_none_left(serve_web):
    """Who has a key shares an address with strangers, as behind a proxy, and is not counted with them."""

    async def by_key(request):
        return Principal(subject="ana", roles=["user"]) if "authorization" in request.headers else None

    client = await serve_web(auth=by_key, settings=SecuritySettings(address_requests=0.01, address_burst=1))
    assert (await client.get("/who")).status_code == 401
    assert (await client.get("/who")).status_code == 429
    assert [(await client.get("/who", headers=as_("ana"))).status_code for _ in range(5)] == [200] * 5


def test_one_address_is_one_client(subtests: pytest.Subtests) -> None:
    """Of IPv6 a client commonly has all addresses of a network, so they are one."""
    rows = [
        (("10.0.0.7", 5), "10.0.0.7"),
        (("::ffff:10.0.0.7", 5), "10.0.0.7"),
        (("2001:db8:1:2:3:4:5:6", 5), "2001:db8:1:2::"),
        (("fe80::1%eth0", 5), "fe80::"),
        (("no address", 5), "no address"),
        (None, ""),
    ]
    for client, expected in rows:
        with subtests.test(client=client, expected=expected):
            assert address_of({"client": client}) == expected


async def test_what_a_request_costs_is_counted():
    """A request that reads much is several; what is owed is bounded, so that it is paid within seconds."""
    now = 0.0
    buckets = TokenBuckets(10, 20, clock=lambda: now)
    assert buckets.take("ana") == 0
    buckets.charge("ana", 18.5)
    assert buckets.take("ana") == pytest.approx(0.05)
    buckets.charge("ana", 10_000)
    assert buckets.take("ana") == pytest.approx(2.1)
    assert buckets.take("bo") == 0
    now = 2.1
    assert buckets.take("ana") == 0


@pytest.fixture
async def heavy_reads(serve_web, monkeypatch):
    """Begin heavy reads, with who has had a turn, and an event at which they end."""
    monkeypatch.setattr(limits, "PATIENCE", 0.5)
    web = make_web(auth=by_name, settings=SecuritySettings())
    let_go, had_turns = asyncio.Event(), list[tuple[str, str]]()

    @web.get("/much")
    async def much(request: Request, asking: Asking) -> str:
        async with limits.heavy_read():
            had_turns.append((asking.tenant, asking.subject))
            await let_go.wait()
        return "read"

    client = await serve_web(web)

    def read(who):
        return asyncio.create_task(client.get("/much", headers=as_(who)))

    return read, had_turns, let_go


async def test_few_requests_read_much_at_once(heavy_reads, until):
    """A principal has one turn at a time, beside those of others; a request that waits too long for one gets 429."""
    read, had_turns, let_go = heavy_reads
    first = read("ana")
    await until(lambda: had_turns == [("", "ana")])
    refused = await read("ana")
    assert (refused.status_code, refused.json()["code"]) == (429, "too_many_readings")
    other = read("bo")
    await until(lambda: had_turns == [("", "ana"), ("", "bo")])
    waiting = read("ana")
    let_go.set()
    assert [(await each).status_code for each in (first, other, waiting)] == [200] * 3


async def test_the_reads_of_one_tenant_leave_turns_to_others(heavy_reads, until):
    """The users of a tenant have half of the turns; others read at once, and when all turns are taken, 503 says so."""
    read, had_turns, let_go = heavy_reads
    noisy = [read(f"acme/u{number}") for number in range(8)]
    await until(lambda: [tenant for tenant, _ in had_turns] == ["acme"] * 4)
    quiet = [read("globex/ana"), *(read(f"u{number}") for number in range(3))]
    await until(lambda: len(had_turns) == 8)
    refused = await asyncio.gather(*noisy[4:], read("initech/bo"))
    assert [each.status_code for each in refused] == [429] * 4 + [503]
    assert "tenant acme reads too much" in refused[0].json()["detail"]
    let_go.set()
    assert [(await each).status_code for each in (*noisy[:4], *quiet)] == [200] * 8


async def test_an_answer_without_a_length_is_counted_as_a_stream(serve_web):
    """A table that is read on the way lasts as a stream of events does."""
    web = make_web(auth=by_name, settings=SecuritySettings(streams=0))

    @web.get("/table.csv")
    async def table(_asking: Asking) -> StreamingResponse:
        return StreamingResponse(iter([b"a,b\r\n"]), media_type="text/csv")

    client = await serve_web(web)
    answer = await client.get("/table.csv", headers=as_("ana"))
    assert (answer.status_code, answer.json()["code"]) == (429, "too_many_streams")
    assert (await client.get("/who", headers=as_("ana"))).status_code == 200

"""Rooms: bytes in flight are bounded, of bodies and of answers, for one principal and for all; a client that takes nothing is dropped."""

import asyncio
import contextlib

import pytest
from fastapi import Request, Response
from starlette.responses import StreamingResponse

from sojourn import Principal
from sojourn.http.security import byte_limits
from sojourn.http.security.byte_limits import ByteBudget
from sojourn.http.security.middleware import SecuritySettings
from sojourn.http.security.principals import Asking
from tests.http.security.conftest import make_web


async def by_name(request):
    """The test's own authentication: the token is the subject."""
    name = request.headers.get("authorization", "").removeprefix("Bearer ")
    return Principal(subject=name, roles=["user"]) if name else None


def as_(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}"}


def head(method: str, path: str, name: str, *more: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {name}", *more, "", ""]
    return "\r\n".join(lines).encode()


@pytest.fixture
async def opened():
    """Open a connection to a client's server; it is closed after the test."""
    writers = list[asyncio.StreamWriter]()

    async def connect(client):
        reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)
        writers.append(writer)
        return reader, writer

    yield connect
    for writer in writers:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def test_a_room_is_shared():
    """One principal has so much, and all together; one request may have more than its principal's part while it is alone; what is given back is free."""
    room = ByteBudget(100, 40)
    ana, again, bo, near = (room.share(scope(name)) for name in ("ana", "ana", "bo", None))
    ana.reach(70)
    assert not again.fits(1)
    ana.close()
    assert again.fits(40)
    assert not ana.fits(1)
    assert bo.fits(40)
    near.reach(20)
    assert not near.fits(1)
    for share in (ana, again, bo, near):
        share.close()
    assert (room.taken, room._by) == (0, {})


def scope(name: str | None):
    """A request of a principal; of None, of who is at the machine."""
    from sojourn.http.security.principals import LOCAL, bind_principal

    made = {"type": "http", "client": ("10.0.0.1", 1)}
    bind_principal(made, Principal(subject=name) if name else LOCAL)
    return made


async def test_bodies_in_flight_are_bounded(serve_web, opened, until):
    """Bytes that a principal has sent of unfinished bodies count, whatever their Content-Length says; another principal is served."""
    web = make_web(
        auth=by_name, settings=SecuritySettings(principal_bytes_in_flight=50_000, bytes_in_flight=90_000)
    )
    client = await serve_web(web)
    slow = await opened(client)
    slow[1].write(head("POST", "/echo", "ana", "Content-Length: 60000") + b'"' + b"a" * 45_000)

    async def status(name: str, size: int) -> tuple[int, str | None]:
        answer = await client.post("/echo", content=b'"' + b"a" * size + b'"', headers=as_(name))
        return answer.status_code, answer.headers.get("retry-after")

    async def is_counted() -> bool:
        return await status("ana", 20_000) == (429, "1")

    await until(is_counted)
    assert await status("ana", 1_000) == (200, None)
    assert await status("bo", 20_000) == (200, None)
    assert await status("cleo", 49_000) == (503, "1")
    slow[1].write(b"a" * 14_998 + b'"')
    assert b"200" in await slow[0].readline()
    assert await status("cleo", 49_000) == (200, None)


async def test_a_body_has_no_multitude_of_values(serve_web):
    """A hundred thousand tiny parts or numbers are refused before anything validates them; what is within a text is none."""
    client = await serve_web(auth=by_name)
    tiny = b"[" + b",".join([b"{}"] * (byte_limits.MAX_OBJECTS + 1)) + b"]"
    answer = await client.post("/echo", content=tiny, headers=as_("ana"))
    assert (answer.status_code, answer.json()["code"]) == (413, "too_many_values")
    numbers = b"[" + b"0," * byte_limits.MAX_VALUES + b"0]"
    answer = await client.post("/echo", content=numbers, headers=as_("ana"))
    assert (answer.status_code, answer.json()["code"]) == (413, "too_many_values")
    text = b'"' + b"{," * (byte_limits.MAX_VALUES + 1) + b'"'
    assert (await client.post("/echo", content=text, headers=as_("ana"))).status_code == 200


async def test_a_stranger_sends_little(serve_web):
    """An open path takes 8 kB of nobody known, and not the two million bytes that a principal may send."""
    client = await serve_web(auth=by_name)
    answer = await client.request("GET", "/health", content=b"a" * 8_000)
    assert answer.status_code == 200
    answer = await client.request("GET", "/health", content=b"a" * 9_000)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


def large_web(**settings):
    """An application with an answer of a million bytes, as a whole and as a stream."""
    web = make_web(auth=by_name, settings=SecuritySettings(burst=100_000, **settings))

    @web.get("/large")
    async def large(_asking: Asking) -> Response:
        return Response(b"a" * 20_000_000)

    @web.get("/piecewise")
    async def piecewise(request: Request, _asking: Asking) -> StreamingResponse:
        async def pieces():
            for _ in range(200):
                yield b"a" * 100_000

        return StreamingResponse(pieces(), media_type="text/csv")

    return web


async def test_unread_answers_are_bounded(serve_web, opened, until):
    """While one large answer of a principal is not taken, it gets no second one; another principal does, while all have room."""
    client = await serve_web(large_web(principal_bytes_in_flight=30_000_000, bytes_in_flight=50_000_000))
    unread = await opened(client)
    unread[1].write(head("GET", "/large", "ana"))
    assert b"200" in await unread[0].readline()
    answer = await client.get("/large", headers=as_("ana"))
    assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (
        429,
        "too_many_bytes",
        "1",
    )
    assert (await client.get("/who", headers=as_("ana"))).status_code == 200
    assert len((await client.get("/large", headers=as_("bo"))).content) == 20_000_000
    another = await opened(client)
    another[1].write(head("GET", "/large", "bo"))
    assert b"200" in await another[0].readline()
    answer = await client.get("/large", headers=as_("cleo"))
    assert (answer.status_code, answer.json()["code"]) == (503, "busy")
    assert len(await unread[0].readexactly(20_000_000)) == 20_000_000

    async def has_room() -> bool:
        return (await client.get("/large", headers=as_("ana"))).status_code == 200

    await until(has_room)


@pytest.mark.parametrize("path", ["/large", "/piecewise"])
async def test_a_client_that_takes_nothing_is_dropped(serve_web, opened, monkeypatch, until, caplog, path):
    """Its answer is cut off, and no longer in flight; the log has no error of the application."""
    monkeypatch.setattr(byte_limits, "STALL", 0.2)
    monkeypatch.setattr(byte_limits, "SLOWEST", 1_000_000_000)
    client = await serve_web(large_web(principal_bytes_in_flight=30_000_000, streams=1))
    unread = await opened(client)
    unread[1].write(head("GET", path, "ana"))
    assert b"200" in await unread[0].readline()
    monkeypatch.setattr(byte_limits, "STALL", 20)

    async def has_room() -> bool:
        return (await client.get(path, headers=as_("ana"))).status_code == 200

    await until(has_room)
    assert "Exception" not in caplog.text

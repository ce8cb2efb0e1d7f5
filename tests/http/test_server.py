"""Connections: a process bounds how many it has, of each address too, and drops those that send no head or take no answer."""

import asyncio
import contextlib

import pytest
import uvicorn
from fastapi import FastAPI, Response

from sojourn.http import server
from sojourn.http.server import Connection, Connections, _is_of_events

LARGE = 20_000_000


@contextlib.asynccontextmanager
async def served(room: Connections):
    """A small application on connections that are counted; the value is its port."""
    web = FastAPI()

    @web.get("/large")
    async def large() -> Response:
        return Response(b"a" * LARGE)

    @web.get("/{path:path}")
    async def any_path(path: str) -> str:
        return path

    settings = uvicorn.Config(
        web,
        port=0,
        log_config=None,
        lifespan="off",
        http=Connection.of(room),
        ws="none",
        timeout_keep_alive=60,
    )
    server = uvicorn.Server(settings)
    with settings.bind_socket() as listening:
        task = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            while not server.started:
                await asyncio.sleep(0.01)
            yield listening.getsockname()[1]
        finally:
            server.should_exit = server.force_exit = True
            await task


@pytest.fixture
async def opened():
    """Open a connection from an address; it is closed after the test."""
    writers = list[asyncio.StreamWriter]()

    async def connect(port: int, address: str = "127.0.0.1"):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
        writers.append(writer)
        return reader, writer

    yield connect
    for writer in writers:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def asked(connection, text: bytes) -> bytes:
    """The first line of the answer to a request; empty if the connection was closed without one."""
    reader, writer = connection
    writer.write(text)
    async with asyncio.timeout(60):
        return await reader.readline()


def get(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: h", *headers, "", ""]).encode()


async def test_connections_are_counted_by_address(opened, until):
    """One address has at most half of them, and all together no more than there are; each that is closed makes room."""
    room = Connections(4, proxies="")
    async with served(room) as port:
        first, second = [await opened(port) for _ in range(2)]
        assert b"200" in await asked(first, get("/a"))
        await until(lambda: room.count == 2)
        assert b"503" in await asked(await opened(port), b"")
        assert b"200" in await asked(await opened(port, "127.0.0.2"), get("/a"))
        assert b"200" in await asked(await opened(port, "127.0.0.3"), get("/a"))
        assert b"503" in await asked(await opened(port, "127.0.0.4"), b"")
        second[1].close()
        await until(lambda: room.count == 3)
        assert b"200" in await asked(await opened(port), get("/a"))


def test_a_trusted_proxy_has_the_connections_of_many():
    """An address of FORWARDED_ALLOW_IPS, which may name networks, has all that there are; another one has half."""
    room = Connections(4, proxies="10.0.0.0/8, 127.0.0.1, *, a-socket")
    assert [room.admit("10.0.0.1") for _ in range(5)] == [True] * 4 + [False]
    room.leave("10.0.0.1")
    assert room.count == 3
    assert [Connections(4, proxies="10.0.0.0/8").admit(each) for each in ("192.0.2.1", "")] == [True, True]
    other = Connections(4, proxies="10.0.0.0/8")
    assert [other.admit("192.0.2.1") for _ in range(3)] == [True, True, False]


async def test_a_slow_head_is_dropped(opened, monkeypatch):
    """A connection that sends nothing, or only a part of a head, is answered and closed; one between two requests too, if it begins a head."""
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.3)
    async with served(Connections(100)) as port:
        for text in (b"", b"GET /a HTTP/1.1\r\nHost: h\r\nX-A"):
            assert b"408" in await asked(await opened(port), text)
        reader, _ = connection = await opened(port)
        assert b"200" in await asked(connection, get("/a"))
        while (await reader.readline()) != b"\r\n":
            pass
        assert await reader.readexactly(3) == b'"a"'
        assert b"408" in await asked(connection, b"GET /b")


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (get("/a?b=" + "c" * 50_000), b"200"),
        (get("/a?b=" + "c" * 70_000), b"431"),
        (get("/a", "X-B: " + "c" * 70_000), b"431"),
        (get("/v1/runs/r/events?after=" + "c" * 256_000), b"200"),
        (get("/v1/runs/r/events", "Last-Event-ID: " + "c" * 256_000), b"200"),
        (get("/v1/runs/r/events?after=" + "c" * 600_000), b"431"),
        (b"POST" + get("/v1/runs/r/events?after=" + "c" * 256_000)[3:], b"431"),
    ],
)
async def test_a_head_is_bounded_while_it_arrives(opened, head, status):
    """At 64 kB, but for a request for events, whose cursor names every open child run; nothing above the bound is collected."""
    async with served(Connections(100)) as port:
        connection = await opened(port)
        connection[1].write(head[:-2])
        assert status in await asked(connection, head[-2:] if status == b"200" else b"")


async def test_a_body_that_nobody_reads_is_no_reason_to_stay(opened, monkeypatch):
    """A client that is answered, and goes on to send its body byte by byte, is dropped after the time of a head."""
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.5)
    async with served(Connections(100)) as port:
        reader, writer = connection = await opened(port)
        assert b"200" in await asked(connection, get("/a", "Content-Length: 1000000"))

        async def is_dropped() -> None:
            while await reader.readline():
                pass

        dropped = asyncio.create_task(is_dropped())
        async with asyncio.timeout(60):
            while not dropped.done():
                writer.write(b"a")
                await asyncio.wait({dropped}, timeout=0.05)


async def test_a_connection_that_takes_nothing_is_aborted(opened, monkeypatch, until):
    """Its answer, of which the connection's buffer has the most, is let go."""
    monkeypatch.setattr(server, "STALLED", 0.3)
    room = Connections(100)
    async with served(room) as port:
        reader, writer = await opened(port)
        writer.write(get("/large"))
        await until(lambda: room.count == 1)
        await until(lambda: room.count == 0)
        with contextlib.suppress(ConnectionError):
            assert len(await reader.read()) < LARGE


def test_which_requests_may_have_a_long_cursor(subtests: pytest.Subtests) -> None:
    """Those for events, by their first line."""
    rows = [
        (b"GET /v1/runs/r/events?after=a HTTP/1.1\r\n", True),
        (b"GET /v1/sessions/a/b/events HTTP/1.1\r\n", True),
        (b"GET /v1/runs/r/events", True),
        (b"GET /v1/runs?x=/events HTTP/1.1\r\n", False),
        (b"GET /v1/runs HTTP/1.1\r\nX: /events", False),
        (b"POST /v1/runs/r/events HTTP/1.1\r\n", False),
        (b"", False),
        (b"\xff\xfe", False),
    ]
    for line, expected in rows:
        with subtests.test(line=line, expected=expected):
            assert _is_of_events(line) is expected

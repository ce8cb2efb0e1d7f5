"""Fixtures: a server on 127.0.0.1 with one scripted behaviour per connection, and a sleep that takes no time."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import httpx2
import pytest

from sojourn.network import http_client

PATIENT = 30.0
HASTY = 0.1


async def silent(reader, writer):
    """Never answer, until the client closes the connection."""
    await reader.read()


async def deaf(reader, writer):
    """Read nothing of the request."""
    writer.transport.pause_reading()
    await reader.read()


async def reset(reader, writer):
    """Reset the connection after the head of the request."""
    await reader.readuntil(b"\r\n\r\n")
    linger = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()


async def hang_up(reader, writer):
    """Close the connection without an answer."""
    await reader.readuntil(b"\r\n\r\n")


async def half(reader, writer):
    """Send less than `Content-Length`."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")


async def plain_text(reader, writer):
    """Answer a TLS handshake in plain text."""
    await reader.read(1)
    writer.write(b"HTTP/1.1 400 This is not TLS\r\n\r\n")


async def babble(reader, writer):
    """Answer with something that is not HTTP."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"what?\r\n\r\n")


BEHAVIOURS = {each.__name__: each for each in (silent, deaf, reset, hang_up, half, plain_text, babble)}


class Loopback:
    """Plays one part of its script for each connection, and the last part for all further ones.

    A part is a name in `BEHAVIOURS`, or an answer: a status, a body, or a status with a `Retry-After`.
    """

    def __init__(self, script: tuple[str | int | tuple[int, str], ...]) -> None:
        self.script = script
        self.count = 0
        self.port = 0
        self.playing: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    @property
    def url(self) -> str:
        """The server's address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def tls_url(self) -> str:
        """The server's address with `https`, though it does not speak TLS."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def part(self) -> str | int | tuple[int, str]:
        """The part that is played next."""
        return self.script[min(self.count, len(self.script) - 1)]

    @property
    def timeout(self) -> httpx2.Timeout:
        """Time-outs that are short only where the next part makes the client wait, so that a busy machine exceeds no other."""
        read = HASTY if self.part == "silent" else PATIENT
        write = HASTY if self.part == "deaf" else PATIENT
        return httpx2.Timeout(PATIENT, read=read, write=write)

    async def serve(self, reader, writer) -> None:
        """Serve one connection."""
        self.playing[asyncio.current_task()] = writer
        part = self.part
        self.count += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await (BEHAVIOURS[part](reader, writer) if part in BEHAVIOURS else _answer(part, reader, writer))
            await writer.drain()
        writer.close()

    async def end(self) -> None:
        """Abort all connections."""
        for writer in self.playing.values():
            writer.transport.abort()
        if self.playing:
            await asyncio.wait(self.playing)


async def _answer(part: str | int | tuple[int, str], reader, writer) -> None:
    await reader.readuntil(b"\r\n\r\n")
    status, after = part if isinstance(part, tuple) else (200 if isinstance(part, str) else part, None)
    body = part if isinstance(part, str) else "{}"
    head = [f"HTTP/1.1 {status} Said", f"Content-Length: {len(body)}", "Connection: close"]
    head += [f"Retry-After: {after}"] if after is not None else []
    writer.write("\r\n".join([*head, "", body]).encode())


@pytest.fixture
async def loopback() -> AsyncIterator[Callable[..., Awaitable[Loopback]]]:
    """Start a server that plays a script, such as `"reset", 503, 200`."""
    async with AsyncExitStack() as stack:

        async def start(*script: str | int | tuple[int, str]) -> Loopback:
            server = Loopback(script)
            listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
            stack.push_async_callback(server.end)
            stack.callback(listening.close)
            server.port = listening.sockets[0].getsockname()[1]
            return server

        yield start


@pytest.fixture
async def client():
    """A client of `http_client` that uses no proxy of the machine."""
    async with http_client("loopback", timeout=PATIENT, trust_env=False) as made:
        yield made


@pytest.fixture
def refused_url():
    """The address of a port on which nothing listens, and that no other process can take."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


class Slept(list[float]):
    """A sleep that takes no time, and the list of its delays in seconds."""

    async def __call__(self, seconds: float) -> None:
        """Record the delay."""
        self.append(seconds)


@pytest.fixture
def slept() -> Slept:
    """A sleep that records its delays."""
    return Slept()

"""Requests that wait, and those of streams, as bytes on a connection: so that a client can vanish from any of them."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2

from tests.http.every_protocol import PROTOCOLS, Request, say

__all__ = ["STREAMING", "WAITING", "Connection", "answering", "connected", "request_of", "requests"]

WAITING = ("output", *(name for name, each in PROTOCOLS.items() if not each.is_stream))
"""Every kind of request that waits."""

STREAMING = ("events", *(name for name, each in PROTOCOLS.items() if each.is_stream))
"""Every kind of stream."""


def request_of(kind: str, text: str, *, run_id: str = "", session_id: str = "") -> Request:
    """A request of one kind: what a run gives, its events, or a text by a protocol."""
    if kind == "output":
        return Request("GET", f"/v1/runs/{run_id}/output?wait=60", {}, None)
    if kind == "events":
        return Request("GET", f"/v1/runs/{run_id}/events", {"Accept": "text/event-stream"}, None)
    return say(kind, text, session_id=session_id)


class Connection:
    """A connection on which one request was sent."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.head = b""

    async def begins(self) -> None:
        """Wait until the answer begins."""
        self.head = await self.reader.readuntil(b"\r\n\r\n")

    async def vanish(self) -> None:
        """Close the connection, as a client does that is killed."""
        self.writer.transport.abort()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()

    async def answer(self) -> httpx2.Response:
        """The answer, to its end or to where the connection breaks; its extension `is_whole` says which."""
        data = self.head + await self.reader.read()
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = [tuple(line.split(": ", 1)) for line in lines]
        is_chunked = ("transfer-encoding", "chunked") in [(k.lower(), v) for k, v in headers]
        is_whole = body.endswith(b"0\r\n\r\n") if is_chunked else bool(body)
        parts = b"".join(_chunks(body)) if is_chunked else body
        kept = [(k, v) for k, v in headers if k.lower() not in ("transfer-encoding", "content-length")]
        status = int(first.split()[1])
        return httpx2.Response(status, headers=kept, content=parts, extensions={"is_whole": is_whole})


def _chunks(body: bytes) -> Iterator[bytes]:
    """The parts of a body in chunks, as far as it came."""
    while body:
        size, _, body = body.partition(b"\r\n")
        yield body[: int(size, 16)]
        body = body[int(size, 16) + 2 :]


@contextlib.asynccontextmanager
async def connected(
    url: str, method: str, path: str, headers: dict[str, str], body: Any, *, key: str = ""
) -> AsyncIterator[Connection]:
    """Send a request on a connection of its own, with a body that is sent as JSON, or as the form that it is as a text."""
    at = httpx2.URL(url)
    reader, writer = await asyncio.open_connection(at.host, at.port)
    try:
        is_form = isinstance(body, str)
        data = b"" if body is None else body.encode() if is_form else json.dumps(body).encode()
        head = {
            "Host": f"{at.host}:{at.port}",
            "Content-Length": str(len(data)),
            "Connection": "close",
            **headers,
        }
        head |= {"Authorization": f"Bearer {key}"} if key else {}
        kind = "application/x-www-form-urlencoded" if is_form else "application/json"
        head |= {"Content-Type": kind} if data else {}
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        writer.write(f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + data)
        await writer.drain()
        yield Connection(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


OF_THE_PROCESS = ("_shutdown_watcher", "_watch")
"""Tasks that a process has once, whatever is asked of it, of sse-starlette and of the service: they look whether the server stops."""

OURS = ("sojourn/http", "sojourn/events", "uvicorn/protocols", "/mcp/", "sse_starlette", "fasta2a")


def answering() -> list[str]:
    """The tasks of this process that answer requests, or read for them."""
    found = []
    for task in asyncio.all_tasks():
        code = getattr(task.get_coro(), "cr_code", None) or getattr(task.get_coro(), "ag_code", None)
        if code and code.co_name not in OF_THE_PROCESS and any(each in code.co_filename for each in OURS):
            found.append(f"{task.get_name()}: {task.get_coro().__qualname__}")
    return found


def requests() -> int:
    """How many requests are being answered."""
    return sum("run_asgi" in each for each in answering())

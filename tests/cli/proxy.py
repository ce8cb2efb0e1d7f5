"""Proxies to a server: one makes it die, or fall silent, in the middle of a command; one makes it unreachable for a time."""

import asyncio
import contextlib
from typing import Literal, Self

PREFACE = len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
HEAD = 9
HEADERS = 1
"""The type of the HTTP/2 frame that begins a request."""


class Proxy:
    """A proxy to a Temporal server, until the request with a given number: then it closes, or answers no more.

    Args:
        target: `host:port` of the server.
        last: The number of the first request without an answer; number 1 is the SDK's own first request.
        end: `dies` cuts and refuses connections from then on, `falls silent` keeps them without an answer.
    """

    def __init__(self, target: str, *, last: int, end: Literal["dies", "falls silent"] = "dies") -> None:
        self._target = target
        self._last = last
        self._end = end
        self._requests = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self.ended = asyncio.Event()
        self.address = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.address = f"{host}:{port}"
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._die()

    def _die(self) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = self._target.split(":")
        upstream, onward = await asyncio.open_connection(host, port)
        self._writers |= {writer, onward}
        back = asyncio.create_task(self._copy(upstream, writer))
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            onward.write(await reader.readexactly(PREFACE))
            while True:
                head = await reader.readexactly(HEAD)
                body = await reader.readexactly(int.from_bytes(head[:3]))
                self._requests += head[3] == HEADERS
                if self._requests >= self._last:
                    self.ended.set()
                if not self.ended.is_set():
                    onward.write(head + body)
                elif self._end == "dies":
                    self._die()
        back.cancel()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while (data := await reader.read(65_536)) and not self.ended.is_set():
                writer.write(data)


class Line:
    """A proxy to a Temporal server, which can be cut and mended.

    Args:
        target: `host:port` of the server.
    """

    def __init__(self, target: str) -> None:
        self._target = target
        self._port = 0
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def address(self) -> str:
        """`host:port` of the proxy."""
        return f"127.0.0.1:{self._port}"

    async def __aenter__(self) -> Self:
        await self.mend()
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.cut()

    async def mend(self) -> None:
        """Accept connections, at the same port as before."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """Close all connections, and refuse others."""
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = self._target.split(":")
        upstream, onward = await asyncio.open_connection(host, port)
        self._writers |= {writer, onward}
        await asyncio.gather(_pass(reader, onward), _pass(upstream, writer))


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
    writer.close()

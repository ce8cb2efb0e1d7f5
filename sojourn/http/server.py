"""Serve an application with uvicorn, with limits on connections.

The limits apply before a connection has sent a request, and while it does not read its response.
Uvicorn has no such limits: a connection that sends nothing, or one byte of a head each second, or
reads no response, would stay open forever.
"""

import asyncio
import contextlib
import gc
import ipaddress
import logging
import os
import resource
import signal
import socket
from collections import Counter
from collections.abc import Callable, Generator
from contextvars import ContextVar
from types import FrameType
from typing import Any, ClassVar

import h11
import structlog
import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from sojourn.checks.machine import check_cookies
from sojourn.http.security.headers import MAX_CURSOR, MAX_HEAD, has_long_cursor
from sojourn.http.security.requests import is_aborted, is_stream, network_of
from sojourn.http.service import Service

__all__ = ["CONNECTIONS", "Connection", "Connections", "serve"]

CONNECTIONS = 2_000
"""Most connections of a process, if its limit of file descriptors allows as many."""

HEAD_SECONDS = 10.0
"""Seconds in which the head of a request must arrive.

They count from its first byte. For the first request, they count from the opening of the connection.
"""

DRAINED = 1.0
"""Seconds for which to read and drop the rest of a head that is too large.

Closing a connection with unread bytes resets it, and the client would not read the response.
"""

STALLED = 40.0
"""Seconds without a read by the client after which to abort a connection. Its streams end before."""

_LINE = 4_096
"""Bytes to keep of a request's start, to recognize a path that may have a long cursor."""

_LONG_HEAD = MAX_HEAD + 2 * MAX_CURSOR

_SLOW = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
)


class Connections:
    """The connections of a process.

    Trusted proxies, by default uvicorn's `FORWARDED_ALLOW_IPS`, connect on behalf of many clients.
    """

    def __init__(self, most: int, proxies: str | None = None) -> None:
        self._most = most
        self._most_of_one = max(1, most // 2)
        named = os.environ.get("FORWARDED_ALLOW_IPS", "") if proxies is None else proxies
        self._proxies = [_network(each.strip()) for each in named.split(",") if each.strip()]
        self._of: Counter[str] = Counter()

    @property
    def count(self) -> int:
        return self._of.total()

    def admit(self, address: str) -> bool:
        """Count a connection of an address if there is room, and return whether there is."""
        is_many = self._of[address] >= self._most_of_one and not self._is_proxy(address)
        if self._of.total() >= self._most or is_many:
            return False
        self._of[address] += 1
        return True

    def _is_proxy(self, address: str) -> bool:
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(each is not None and found in each for each in self._proxies)

    def leave(self, address: str) -> None:
        self._of[address] -= 1
        if not self._of[address]:
            del self._of[address]


def _network(named: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """Return a network of trusted proxies, or None for other text, such as `*`."""
    try:
        return ipaddress.ip_network(named, strict=False)
    except ValueError:
        return None


class Connection(H11Protocol):
    """One connection of HTTP/1.1, by h11 whatever is installed: httptools bounds no head."""

    connections_of_process: ClassVar[Connections]

    @classmethod
    def of(cls, connections: Connections) -> "type[Connection]":
        """Return a protocol class whose connections are counted together."""
        return type("Connection", (cls,), {"connections_of_process": connections})

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.conn = h11.Connection(h11.SERVER, 2 * _LONG_HEAD)  # our own limit applies first
        self._address: str | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._begin = b""
        self._head = 0
        """Bytes of a head that have arrived."""
        self._is_refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        address = network_of(self.client[0]) if self.client else ""
        if not self.connections_of_process.admit(address):
            self._refuse(_MANY)
            return
        self._address = address
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._timer, self._stalled):
            if timer is not None:
                timer.cancel()
        if self._address is not None:
            self.connections_of_process.leave(self._address)
            self._address = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused or self.transport.is_closing():
            return
        if is_head := self.conn.their_state is h11.IDLE:
            if not self._head:
                self._expect_head()
            self._head += len(data)
            if len(self._begin) < _LINE:
                self._begin = (self._begin + data)[:_LINE]
        super().data_received(data)
        if not is_head:
            return
        if self.conn.their_state is not h11.IDLE:
            self._has_head()
        elif self._head > (_LONG_HEAD if _is_of_events(self._begin) else MAX_HEAD):
            self._is_refused = True
            self.transport.write(_LARGE)
            self.loop.call_later(DRAINED, self.transport.close)

    def on_response_complete(self) -> None:
        self._has_head()
        super().on_response_complete()
        if (
            self.conn.their_state is h11.SEND_BODY
        ):  # the application no longer reads the body, and each byte would prolong it
            self._expect_head()

    def pause_writing(self) -> None:
        """Abort the connection unless the client reads within `STALLED` seconds."""
        super().pause_writing()
        if self._stalled is None:
            self._stalled = self.loop.call_later(STALLED, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _expect_head(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(HEAD_SECONDS, self._refuse, _SLOW)

    def _has_head(self) -> None:
        self._head, self._begin = 0, b""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, answer: bytes) -> None:
        if not (self._is_refused or self.transport.is_closing()):
            self.transport.write(answer)
            self.transport.close()


def _is_of_events(begin: bytes) -> bool:
    """Return whether a request line is one for events, which may have a long cursor."""
    method, _, rest = begin.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    return has_long_cursor(method.decode("latin-1"), path.decode("latin-1"))


_log = structlog.get_logger("sojourn.http")

GRACE = 5
"""Seconds in which requests must end at shutdown. Streams end at once."""

SPARE = 256
"""File descriptors that a process needs beside those of its connections."""


async def serve(web: FastAPI, listener: socket.socket, *, announce: Callable[[], None] | None = None) -> None:
    """Serve until SIGTERM or Ctrl-C. A second signal ends the open requests too.

    Args:
        web: What `create_app` returned.
        listener: The socket to listen on.
        announce: Called once the Temporal server has answered, before the first request is.

    Raises:
        ServerUnavailable: The Temporal server does not answer at the beginning.
    """
    service: Service = web.state.service
    await service.open()  # uvicorn would print a traceback if this failed at its startup
    if announce is not None:
        announce()
    filter_server_log()
    # Existing objects stay. A full collection would block the event loop for 200 ms whenever many new objects exist.
    gc.collect()
    gc.freeze()
    if slow := check_cookies():
        _log.warning("python_outdated", found=slow.found, mend=slow.mend)
    config = uvicorn.Config(
        AbortedStreamMiddleware(web),
        log_config=None,
        access_log=False,
        server_header=False,
        log_level="warning",
        timeout_graceful_shutdown=GRACE,
        http=Connection.of(Connections(_room_for(CONNECTIONS))),
        ws="none",
        lifespan="on",
    )
    await _Server(config, service).serve(sockets=[listener])


def _room_for(connections: int) -> int:
    """Raise the limit of descriptors, and return how many connections it allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * connections + SPARE  # a stream may have a connection to the live transport too
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY:
        return connections
    return max(1, min(connections, (soft - SPARE) // 2))


LOGGER = "uvicorn.error"

_INCOMPLETE = "ASGI callable returned without completing response"

_NOISE = ("Invalid HTTP request received.", "Unsupported upgrade request.", "No supported WebSocket library")
"""Prefixes of log lines that any client can cause without credentials, in any number."""

_is_cut: ContextVar[bool] = ContextVar("sojourn.is_cut", default=False)
"""Whether the response was a stream that ended without an exception, or was aborted on purpose.

Such a stream may stop before its end on purpose. Uvicorn logs from the task of the request, so the log
filter sees this value.
"""


class AbortedStreamMiddleware:
    """Note which responses were aborted on purpose, so that no error is logged."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        was_stream = False

        async def forward(message: Message) -> None:
            nonlocal was_stream
            if message["type"] == "http.response.start":
                was_stream = is_stream(message)
            await send(message)

        await self._app(scope, receive, forward)
        _is_cut.set(was_stream or is_aborted(scope))


def filter_server_log() -> None:
    """Keep aborted streams, and lines that any client can cause, out of uvicorn's log."""
    logging.getLogger(LOGGER).addFilter(_is_logged)


def _is_logged(record: logging.LogRecord) -> bool:
    line = record.getMessage()
    return not (line.startswith(_NOISE) or (_is_cut.get() and line.startswith(_INCOMPLETE)))


class _Server(uvicorn.Server):
    """End the streams before waiting for requests, and raise no signal again."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGINT, signal.SIGTERM)
        for number in numbers:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Shut down gracefully, or at once at the second signal."""
        del sig, frame
        self.force_exit = self.should_exit
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._service.end_streams()
        await super().shutdown(sockets)

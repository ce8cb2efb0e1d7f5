"""Serve an application on a socket with uvicorn, until a signal stops it."""

import asyncio
import contextlib
import gc
import resource
import signal
import socket
from collections.abc import Callable, Generator
from types import FrameType

import structlog
import uvicorn
from fastapi import FastAPI

from sojourn.checks.machine import check_cookies
from sojourn.http.connections import CONNECTIONS, Connection, Connections
from sojourn.http.event_streams import AbortedStreams, filter_server_log
from sojourn.http.service import Service

__all__ = ["serve"]

_log = structlog.get_logger("sojourn.http")

GRACE = 5
"""Seconds in which requests must end at shutdown. Streams end at once."""

SPARE = 256
"""File descriptors that a process needs beside those of its connections."""


async def serve(web: FastAPI, listener: socket.socket, *, announce: Callable[[], None] | None = None) -> None:
    """Serve an application until SIGTERM or Ctrl-C.

    A second signal ends the open requests too.

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
        AbortedStreams(web),
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
    """Return how many connections the process may have.

    This first raises the process's limit of descriptors to what the connections need, if it may.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * connections + SPARE  # a stream may have a connection to the live transport too
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY:
        return connections
    return max(1, min(connections, (soft - SPARE) // 2))


class _Server(uvicorn.Server):
    """Ends the streams before it waits for requests.

    A signal is the usual way to stop a service, so it is not raised again.
    """

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Stop at a signal, without raising it again."""
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
        """End the streams first, then the rest.

        The clients of the streams reconnect to another process.
        """
        await self._service.end_streams()
        await super().shutdown(sockets)

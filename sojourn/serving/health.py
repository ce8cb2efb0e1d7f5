"""Answer a supervisor over HTTP whether a worker is alive and ready.

The worker's own event loop answers, so that a loop that a tool blocks answers nothing: a supervisor sees
what runs see. `/live` never asks Temporal, because a restart of the worker repairs no server. `/ready` asks
the worker's own connection, at most once in `FRESH` seconds however many ask.
"""

import asyncio
import contextlib
import errno
import json
import time
from collections.abc import AsyncGenerator
from http import HTTPStatus
from typing import Any, Literal

import structlog
from temporalio.api.workflowservice.v1 import GetSystemInfoRequest
from temporalio.client import Client
from temporalio.service import RPCError

from sojourn.errors import DefinitionError

__all__ = ["FRESH", "WorkerHealth", "WorkerState"]

WorkerState = Literal["connecting", "opening", "polling", "draining"]

FRESH = 2.0
"""Age up to which an answer of Temporal counts, in seconds."""

_ANSWER = 3.0
"""Longest wait for Temporal's answer, in seconds."""

_REQUEST = 5.0
"""Longest wait for a request's head, in seconds."""

_MAX_HEAD = 8_192
"""Most bytes of a request's head."""

_MAX_REQUESTS = 64
"""Most requests at once. Further ones are closed unanswered."""

_PAUSE = 1.0
"""Seconds between attempts to listen on a port that another process uses."""

_log = structlog.get_logger("sojourn.worker")


class WorkerHealth:
    def __init__(self) -> None:
        self.state: WorkerState = "connecting"
        self.client: Client | None = None
        """The connection of the worker, once there is one."""
        self._asking = asyncio.Lock()
        self._asked_at = -FRESH
        self._fault: str | None = None
        self._requests = 0

    @contextlib.asynccontextmanager
    async def served(self, address: str | None) -> AsyncGenerator[None]:
        """Serve `/live` and `/ready` during the block, unless there is no address.

        If another process uses the port, such as a worker that drains, this one listens once it is free.

        Raises:
            DefinitionError: The address is none of this machine, or its port needs more rights.
        """
        if address is None:
            yield
            return
        server = await self._listen(address)
        waiting = None if server else asyncio.create_task(self._listen_later(address))
        try:
            yield
        finally:
            if waiting:
                waiting.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    server = await waiting
            if server:
                server.close()

    async def _listen(self, address: str) -> asyncio.Server | None:
        host, _, port = address.rpartition(":")
        try:
            return await asyncio.start_server(self._handle, host.strip("[]"), int(port), limit=_MAX_HEAD)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return None
            raise DefinitionError(
                f"health cannot be served at {address} ({error.strerror or error}); choose another --health-port or "
                "SOJOURN_HEALTH_PORT"
            ) from error

    async def _listen_later(self, address: str) -> asyncio.Server:
        _log.warning("health_port_in_use", address=address, mend="the worker answers there once it is free")
        while True:
            await asyncio.sleep(_PAUSE)
            if server := await self._listen(address):
                return server

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._requests += 1
        try:
            if self._requests <= _MAX_REQUESTS:
                with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
                    async with asyncio.timeout(_REQUEST + _ANSWER):
                        writer.write(await self._respond(reader))
                        await writer.drain()
        finally:
            self._requests -= 1
            writer.close()

    async def _respond(self, reader: asyncio.StreamReader) -> bytes:
        try:
            async with asyncio.timeout(_REQUEST):
                head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return _response(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, {})
        method, _, rest = head.partition(b"\r\n")[0].partition(b" ")
        path, _, version = rest.partition(b" ")
        if not version.startswith(b"HTTP/1."):
            return _response(HTTPStatus.BAD_REQUEST, {})
        if method not in (b"GET", b"HEAD"):
            return _response(HTTPStatus.METHOD_NOT_ALLOWED, {})
        status, body = await self._answer(path.partition(b"?")[0])
        return _response(status, body, has_body=method == b"GET")

    async def _answer(self, path: bytes) -> tuple[HTTPStatus, dict[str, Any]]:
        if path == b"/live":
            return HTTPStatus.OK, {"state": self.state}
        if path != b"/ready":
            return HTTPStatus.NOT_FOUND, {"paths": ["/live", "/ready"]}
        if self.state != "polling":
            return HTTPStatus.SERVICE_UNAVAILABLE, {"state": self.state}
        if fault := await self._server_fault():
            return HTTPStatus.SERVICE_UNAVAILABLE, {"state": self.state, "reason": fault}
        return HTTPStatus.OK, {"state": self.state}

    async def _server_fault(self) -> str | None:
        """Return why Temporal does not answer the worker, or None."""
        async with self._asking:
            if time.monotonic() - self._asked_at >= FRESH:
                self._fault = await self._ask()
                self._asked_at = time.monotonic()
            return self._fault

    async def _ask(self) -> str | None:
        assert self.client is not None, "a worker that polls has a connection"
        try:
            async with asyncio.timeout(_ANSWER):
                await self.client.workflow_service.get_system_info(GetSystemInfoRequest(), retry=False)
        except TimeoutError:
            return f"the Temporal service does not answer within {_ANSWER:.0f} s"
        except RPCError as error:
            return f"the Temporal service does not answer: {error.status.name}"
        return None


def _response(status: HTTPStatus, body: dict[str, Any], *, has_body: bool = True) -> bytes:
    content = json.dumps(body).encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (content if has_body else b"")

"""ASGI application for MCP, which hands each request to a server of the SDK."""

import asyncio
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from starlette.types import Receive, Scope, Send

from sojourn.http.event_streams import HEARTBEAT
from sojourn.http.routes.parameters import RequestScope
from sojourn.http.security import audit
from sojourn.http.service import Service

__all__ = ["FILE_PATHS", "MCPEndpoint"]

FILE_PATHS = (("params", "arguments", "files", "*", "data"),)
"""Where the data of files stands in a body."""

GRACE = 5.0
"""Seconds in which a stream must send its result at shutdown. This may take a moment on a busy machine."""


class MCPEndpoint:
    """ASGI endpoint for MCP requests.

    The SDK takes most of a second to import, so it is imported on the first request.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._made: Callable[[], Any] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        audit.bind_jsonrpc()
        await self._service.open()
        RequestScope(self._service, scope).hold()
        if self._made is None:
            self._made = await asyncio.to_thread(_maker_of, self._service)  # do not block other requests
        manager = self._made()
        async with manager.run():
            await manager.handle_request(scope, receive, send)


def _maker_of(service: Service) -> Callable[[], Any]:
    managers = import_module("mcp.server.streamable_http_manager")
    # The SDK's response ends at most half a second after uvicorn begins to stop, and sends a comment each 15 s; the
    # SDK has no option for either.
    transport: Any = import_module("mcp.server.streamable_http")
    streams = import_module("sse_starlette")
    transport.EventSourceResponse = partial(
        streams.EventSourceResponse, shutdown_grace_period=GRACE, ping=HEARTBEAT
    )
    server = import_module("sojourn.http.protocols.mcp.server").server_of(service)
    return partial(managers.StreamableHTTPSessionManager, server, stateless=True)

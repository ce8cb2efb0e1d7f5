"""The endpoint of MCP: an ASGI application that answers each request with a server of the SDK."""

import asyncio
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from starlette.types import Receive, Scope, Send

from sojourn.http.request_scope import RequestScope
from sojourn.http.security import audit
from sojourn.http.service import Service

__all__ = ["MCPEndpoint"]

GRACE = 5.0
"""Seconds that a stream has to send its result, once uvicorn was asked to stop: what a call then says takes a moment on a busy machine."""


class MCPEndpoint:
    """Answers requests; the SDK, which takes most of a second to import, is imported with the first one.

    Args:
        service: The service.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._made: Callable[[], Any] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. Its host and origin, its body and principal were checked by the security middleware."""
        audit.bind_jsonrpc()
        await self._service.open()
        RequestScope(self._service, scope).hold()
        if self._made is None:
            self._made = await asyncio.to_thread(_maker_of, self._service)  # other requests and streams go on
        manager = self._made()
        async with manager.run():
            await manager.handle_request(scope, receive, send)


def _maker_of(service: Service) -> Callable[[], Any]:
    """What makes the SDK's manager of one request, with the server of a service."""
    managers = import_module("mcp.server.streamable_http_manager")
    # The SDK's response ends half a second after uvicorn was asked to stop, at the latest, and it takes no option.
    transport: Any = import_module("mcp.server.streamable_http")
    streams = import_module("sse_starlette")
    transport.EventSourceResponse = partial(streams.EventSourceResponse, shutdown_grace_period=GRACE)
    server = import_module("sojourn.http.protocols.mcp.server").server_of(service)
    return partial(managers.StreamableHTTPSessionManager, server, stateless=True)

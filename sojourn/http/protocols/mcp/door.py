"""The door of MCP: an ASGI application that answers one request with a server of the SDK's."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from starlette.types import Receive, Scope, Send

from sojourn.http.attendance import Attendance
from sojourn.http.locks.noted import only_calls
from sojourn.http.service import Service

if TYPE_CHECKING:
    from mcp.server.lowlevel.server import Server

__all__ = ["McpDoor"]


class McpDoor:
    """Answers requests; the SDK, which takes most of a second to import, is imported with the first one.

    Args:
        service: The service.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._server: Server[Any] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. Its host and origin, its body and who asks were checked by the locks."""
        manager_of = import_module("mcp.server.streamable_http_manager").StreamableHTTPSessionManager
        only_calls()
        await self._service.open()
        Attendance(self._service, scope).hold()
        if self._server is None:
            self._server = import_module("sojourn.http.protocols.mcp.server").server_of(self._service)
        manager = manager_of(self._server, stateless=True)
        async with manager.run():
            await manager.handle_request(scope, receive, send)

"""Replace the server of an MCP toolset by functions for the time of a test.

The functions become the tools of a real MCP server, on the official SDK, in the test's process, and nothing
is started. It needs `sojourn[mcp]`.
"""

from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from mcp.client._memory import InMemoryTransport
from mcp.server.mcpserver import MCPServer

from sojourn.mcp import McpToolset

if TYPE_CHECKING:
    from sojourn.mcp.streams import Link

__all__ = ["use_mcp"]


@contextmanager
def use_mcp(toolset: McpToolset, *tools: Callable[..., Any] | MCPServer[Any]) -> Generator[MCPServer[Any]]:
    """Replace the tools of an MCP toolset by functions inside the block.

    Yields the server. A tool's name, description and schema come from its function, sync or async. The
    server answers with the text of a `ToolError` of the SDK, and hides that of other exceptions. It applies
    to workers that are started inside the block, in this process.

    Args:
        toolset: The toolset, as the app declares it; its other options stay.
        tools: Functions; or one `MCPServer` of the SDK, such as one whose tools have annotations.

    Raises:
        ValueError: Two functions have the same name, or there are functions beside a server.
    """
    server = _server_of(toolset.id, tools)
    before, toolset.transport = toolset.transport, _InProcess(server)
    try:
        yield server
    finally:
        toolset.transport = before


def _server_of(toolset_id: str, tools: tuple[Callable[..., Any] | MCPServer[Any], ...]) -> MCPServer[Any]:
    servers: list[MCPServer[Any]] = [tool for tool in tools if isinstance(tool, MCPServer)]
    if servers and len(tools) > 1:
        raise ValueError("use_mcp takes functions, or one MCPServer")
    if servers:
        return servers[0]
    functions = [tool for tool in tools if not isinstance(tool, MCPServer)]
    names = [function.__name__ for function in functions]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"two tools of toolset {toolset_id} would have the name {min(twice)}")
    server: MCPServer[Any] = MCPServer(toolset_id)
    for function in functions:
        server.add_tool(function)
    return server


class _InProcess:
    secrets = ()

    def __init__(self, server: MCPServer[Any]) -> None:
        self._server = server

    def connect(self, link: "Link") -> AbstractAsyncContextManager[Any]:
        del link  # its log and its secrets are those of a stranger's server
        return InMemoryTransport(self._server)

"""An MCP server that keeps a cart for each session: `python cart_server.py stdio | http PORT | sse PORT`."""

import asyncio
import os
import sys
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

carts: dict[str, list[str]] = {}


async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
    schema = {"type": "object", "properties": {"item": {"type": "string"}}}
    return types.ListToolsResult(tools=[types.Tool(name="put", description="Put.", input_schema=schema)])


async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    """Put an item into the cart of the session, and return all of it."""
    request = getattr(context, "request", None)  # none over standard input: the process has one session
    named = (
        request and (request.headers.get("mcp-session-id") or request.query_params.get("session_id"))
    ) or ""
    cart = carts.setdefault(named, [])
    cart.append((params.arguments or {}).get("item", ""))
    content = {"cart": cart, "pid": os.getpid()}
    return types.CallToolResult(content=[types.TextContent(text="put")], structured_content=content)


server: Any = Server("cart", on_list_tools=list_tools, on_call_tool=call_tool)


async def serve_stdio() -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def serve_http(port: int, *, sse: bool) -> None:
    import uvicorn
    from mcp.server.sse import SseServerTransport
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Mount, Route

    transport = SseServerTransport("/messages/")

    async def events(request: Any) -> Response:
        async with transport.connect_sse(request.scope, request.receive, request._send) as (read, write):
            await server.run(read, write, server.create_initialization_options())
        return Response()

    routes = [Route("/sse", events), Mount("/messages/", app=transport.handle_post_message)]
    app = Starlette(routes=routes) if sse else server.streamable_http_app()
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", timeout_graceful_shutdown=1)


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        asyncio.run(serve_stdio())
    else:
        serve_http(int(sys.argv[2]), sse=sys.argv[1] == "sse")

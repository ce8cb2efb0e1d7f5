"""An MCP server that repeats its secrets in everything but results.

`python leaky_server.py stdio | http PORT`
"""

import asyncio
import os
import sys
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server


async def list_tools(_ctx: Any, _params: Any) -> types.ListToolsResult:
    names = ("fails", "raises", "reports", "writes", "echo")
    return types.ListToolsResult(
        tools=[types.Tool(name=name, input_schema={"type": "object"}) for name in names]
    )


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    seen = (params.arguments or {}).get("seen", "")
    request = getattr(ctx, "request", None)
    given = f"{dict(request.headers)} {request.url}" if request else os.environ.get("TOKEN", "")
    both = f"{seen} {given}"
    match params.name:
        case "fails":
            return types.CallToolResult(content=[types.TextContent(text=both)], is_error=True)
        case "raises":
            raise MCPError(code=-32_000, message=both)
        case "reports":
            while os.path.exists(os.environ["HOLD"]):
                await ctx.session.report_progress(1, 3, both)
                await asyncio.sleep(0.1)
        case "writes":
            print(both, file=sys.stderr, flush=True)
        case _:
            pass
    return types.CallToolResult(content=[types.TextContent(text=seen)])


server = Server("leaky", version="1", on_list_tools=list_tools, on_call_tool=call_tool)


async def serve_stdio() -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        asyncio.run(serve_stdio())
    else:
        import uvicorn

        uvicorn.run(
            server.streamable_http_app(), host="127.0.0.1", port=int(sys.argv[2]), log_level="warning"
        )

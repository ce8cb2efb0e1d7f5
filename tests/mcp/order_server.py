"""An MCP server whose tools a file declares: `python order_server.py SCHEMAS CALLS`.

The file SCHEMAS maps names to schemas. The arguments of each call are appended to the file CALLS, and the result
says how many pieces were ordered.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

SCHEMAS, CALLS = Path(sys.argv[1]), Path(sys.argv[2])


async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
    tools = [
        types.Tool(name=name, description="Take it.", input_schema=schema)
        for name, schema in json.loads(SCHEMAS.read_text()).items()
    ]
    return types.ListToolsResult(tools=tools)


async def call_tool(_context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    with CALLS.open("a") as calls:
        calls.write(json.dumps(params.arguments) + "\n")
    lines = (params.arguments or {}).get("lines", [])
    total = sum(line["count"] for line in lines) if params.name == "place" else 0
    return types.CallToolResult(content=[types.TextContent(text=f"{total} pieces")])


async def main() -> None:
    server: Any = Server("orders", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())

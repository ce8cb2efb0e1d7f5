"""An MCP server that asks for input: `python asking_server.py NOTES stdio | http PORT`.

It appends each call to the file NOTES. Its tool `ask` asks for the input that its arguments name, round by round,
and then returns the last responses. The process keeps nothing of a call: its `requestState` starts with the number of
the round. The tools `files_*` have annotations.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
import uvicorn
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

NOTES = Path(sys.argv[1])
PATH = {"type": "object", "properties": {"path": {"type": "string"}, "mode": True}, "required": ["path"]}


def annotated(name: str, **hints: bool) -> types.Tool:
    return types.Tool(name=name, input_schema=PATH, annotations=types.ToolAnnotations(**hints))


TOOLS = [
    types.Tool(name="ask", input_schema={"type": "object"}),
    annotated("files_read", read_only_hint=True),
    annotated("files_delete", destructive_hint=True),
    annotated("files_delete_all", destructive_hint=True),
    annotated("files_touch"),
    annotated("files_look", read_only_hint=True, destructive_hint=True, idempotent_hint=False),
]


def request_of(asked: dict[str, Any]) -> Any:
    """Return an input request: a form, a URL, sampling, or roots."""
    message = asked.get("message", "What now?")
    if "form" in asked:
        params: Any = types.ElicitRequestFormParams(message=message, requested_schema=asked["form"])
        return types.ElicitRequest(params=params)
    if "url" in asked:
        return types.ElicitRequest(params=types.ElicitRequestURLParams(message=message, url=asked["url"]))
    if "complete" in asked:
        prompt = types.SamplingMessage(role="user", content=types.TextContent(text=asked["complete"]))
        return types.CreateMessageRequest(
            params=types.CreateMessageRequestParams(messages=[prompt], max_tokens=10)
        )
    return types.ListRootsRequest()


async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=TOOLS)


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> Any:
    arguments = params.arguments or {}
    given = {
        key: response.model_dump(by_alias=True, mode="json", exclude_none=True)
        for key, response in (params.input_responses or {}).items()
    }
    note = {
        "pid": os.getpid(),
        "name": params.name,
        "arguments": arguments,
        "given": given,
        "state": params.request_state,
        "can": (ctx.meta or {}).get("io.modelcontextprotocol/clientCapabilities"),
    }
    with NOTES.open("a") as notes:
        notes.write(json.dumps(note) + "\n")
    if params.name != "ask":
        return types.CallToolResult(content=[types.TextContent(text="done")])
    rounds, state = arguments.get("rounds", []), arguments.get("state")
    number = 0 if params.request_state is None else int(params.request_state.partition(" ")[0]) + 1
    if number and (error := arguments.get("error")):
        text = error.replace("STATE", params.request_state or "")
        if arguments.get("error_kind") == "protocol":
            raise MCPError(code=arguments.get("error_code", -32_000), message=text)
        return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)
    if number < len(rounds) or arguments.get("forever"):
        asked = rounds[min(number, len(rounds) - 1)]
        requests = {key: request_of(each) for key, each in asked.items()}
        token = None if state is None else f"{number} {state}"
        return types.InputRequiredResult(input_requests=requests or None, request_state=token)
    return types.CallToolResult(
        content=[types.TextContent(text="...")], structured_content={"given": given, "pid": os.getpid()}
    )


server: Any = Server("asking", on_list_tools=list_tools, on_call_tool=call_tool)


async def main() -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    if sys.argv[2] == "stdio":
        asyncio.run(main())
    else:
        uvicorn.run(
            server.streamable_http_app(), host="127.0.0.1", port=int(sys.argv[3]), log_level="warning"
        )

"""An MCP server on the official SDK, for tests: `python server.py stdio | http PORT | sse PORT`.

Its tools have what a client must handle: every kind of content, results that break their schema, slow
calls, lists that change, and invalid names and schemas.
"""

import asyncio
import base64
import os
import sys
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged

PIXEL = base64.b64encode(b"\x89PNG" + b"\0" * 60).decode()
SHAPE = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
PAGES = {
    "type": "object",
    "properties": {
        "items": {"type": "array"},
        "returned": {"type": "integer"},
        "total": {"type": "integer"},
        "truncated": {"type": "boolean"},
        "next_cursor": {"type": "string"},
    },
    "required": ["items", "returned"],
}
ORDER = {
    "type": "object",
    "properties": {
        "sku": {"type": "string", "pattern": "^[A-Z]{3}$"},
        "count": {"type": "integer", "minimum": 1, "maximum": 9},
        "kind": {"enum": ["new", "used"]},
    },
    "required": ["sku"],
    "additionalProperties": False,
}
DRAFT_7 = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {
        "pair": {
            "type": "array",
            "items": [{"type": "string"}, {"type": "integer"}],
            "additionalItems": False,
        },
        "site": {"$ref": "#/definitions/Site"},
    },
    "definitions": {"Site": {"type": "string", "minLength": 2}},
    "dependencies": {"site": ["pair"]},
}
cancelled: list[str] = []
extra: list[str] = []
counts = {"list": 0, "call": 0, "slow": 0}
bus = InMemorySubscriptionBus()


def text(value: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=value)])


def structured(value: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text="...")], structured_content=value)


def tool(name: str, schema: dict[str, Any] | None = None, **fields: Any) -> types.Tool:
    return types.Tool(name=name, input_schema=schema or {"type": "object"}, **fields)


TOOLS = [
    tool(
        "echo",
        description="Gives its arguments back.\x1b[31m\n\nAll of them.",
        title="Echo",
        annotations=types.ToolAnnotations(read_only_hint=True, idempotent_hint=False, open_world_hint=False),
    ),
    tool("order", ORDER),
    tool("draft-7", DRAFT_7),
    tool("meta"),
    tool("counts"),
    tool("cancelled"),
    tool("structured", output_schema=SHAPE),
    tool("pages", output_schema=PAGES),
    tool("structured-as-text", output_schema=SHAPE),
    tool("badly-structured", output_schema=SHAPE),
    tool("several"),
    tool("nothing"),
    tool("fails"),
    tool("slow"),
    tool("progress"),
    tool("large"),
    tool("change"),
    tool("space d"),
    tool("elsewhere", {"type": "object", "properties": {"a": {"$ref": "https://example.com/x.json"}}}),
]


async def list_tools(_ctx: Any, _params: Any) -> types.ListToolsResult:
    counts["list"] += 1
    if os.environ.get("LIST_FAILS"):
        raise RuntimeError("no list today")
    return types.ListToolsResult(tools=[*TOOLS, *(tool(name) for name in extra)])


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:  # noqa: PLR0912
    counts["call"] += 1
    given = params.arguments or {}
    match params.name:
        case "echo" | "order" | "draft-7":
            return structured(given)
        case "meta":
            headers = dict(ctx.request.headers) if getattr(ctx, "request", None) else {}
            return structured({"meta": dict(ctx.meta or {}), "headers": headers})
        case "counts":
            return structured({**counts, "pid": os.getpid()})
        case "cancelled":
            return structured({"cancelled": cancelled})
        case "pages":
            return structured(
                {"items": [1, 2], "returned": 2, "total": 9, "truncated": True, "next_cursor": "p2"}
            )
        case "structured":
            return structured({"count": 3})
        case "structured-as-text":
            return text('{"count": 4}')
        case "badly-structured":
            return structured({"count": "three"})
        case "several":
            return types.CallToolResult(
                content=[
                    types.TextContent(text="one"),
                    types.ImageContent(data=PIXEL, mime_type="image/png"),
                    types.ImageContent(data=PIXEL, mime_type="image/png"),
                    types.AudioContent(data=PIXEL, mime_type="audio/wav"),
                    types.EmbeddedResource(
                        resource=types.TextResourceContents(
                            uri="note://1", mime_type="text/plain", text="short"
                        )
                    ),
                    types.EmbeddedResource(resource=types.BlobResourceContents(uri="file:///x", blob=PIXEL)),
                    types.ResourceLink(uri="file:///y", name="y"),
                ]
            )
        case "nothing":
            return types.CallToolResult(content=[])
        case "fails":
            return types.CallToolResult(
                content=[types.TextContent(text=f"no \x1b]0;x\x07such {given.get('what', 'thing')}")],
                is_error=True,
            )
        case "slow":
            counts["slow"] += 1
            try:
                await asyncio.sleep(given.get("seconds", 30))
            except asyncio.CancelledError:
                cancelled.append(given.get("mark", ""))
                raise
            return text("done")
        case "progress":
            for step in (1, 2, 3):
                await ctx.session.report_progress(step, 3, f"step {step}")
            return text("done")
        case "large":
            return text("x" * given["size"])
        case "change":
            extra[:] = given["names"]
            await bus.publish(ToolsListChanged())
            await ctx.session.send_tool_list_changed()
            return text("changed")
        case name:
            return text(name)


server = Server(
    "test",
    version="1",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_subscriptions_listen=ListenHandler(bus),
)


async def serve_stdio() -> None:
    options = server.create_initialization_options(NotificationOptions(tools_changed=True))
    async with stdio_server() as (read, write):
        await server.run(read, write, options)


def serve_http(port: int, *, sse: bool) -> None:
    import uvicorn
    from mcp.server.sse import SseServerTransport
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Mount, Route

    if sse:
        transport = SseServerTransport("/messages/")

        async def events(request: Any) -> Response:
            async with transport.connect_sse(request.scope, request.receive, request._send) as (read, write):
                options = server.create_initialization_options(NotificationOptions(tools_changed=True))
                await server.run(read, write, options)
            return Response()

        app = Starlette(
            routes=[Route("/sse", events), Mount("/messages/", app=transport.handle_post_message)]
        )
    else:
        app = server.streamable_http_app()
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", timeout_graceful_shutdown=1)


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        asyncio.run(serve_stdio())
    else:
        serve_http(int(sys.argv[2]), sse=sys.argv[1] == "sse")

"""An MCP server over stdio whose tools a file declares: `python order_server.py SCHEMAS CALLS`.

The file SCHEMAS maps names to schemas. The arguments of each call are appended to the file CALLS, and the result
says how many pieces were ordered. It does without the SDK, whose import takes a second.
"""

import json
import sys
from pathlib import Path
from typing import Any

SCHEMAS, CALLS = Path(sys.argv[1]), Path(sys.argv[2])


def initialize(given: dict[str, Any]) -> dict[str, Any]:
    info = {"name": "orders", "version": "1"}
    return {"protocolVersion": given["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}


def list_tools() -> dict[str, Any]:
    declared = json.loads(SCHEMAS.read_text())
    tools = [
        {"name": name, "description": "Take it.", "inputSchema": schema} for name, schema in declared.items()
    ]
    return {"tools": tools}


def call_tool(name: str, arguments: dict[str, Any] | None = None, **_more: Any) -> dict[str, Any]:
    with CALLS.open("a") as calls:
        calls.write(json.dumps(arguments) + "\n")
    lines = (arguments or {}).get("lines", [])
    total = sum(line["count"] for line in lines) if name == "place" else 0
    return {"content": [{"type": "text", "text": f"{total} pieces"}]}


for line in sys.stdin:
    message = json.loads(line)
    params = message.get("params") or {}
    match message.get("method"):
        case "initialize":
            end = {"result": initialize(params)}
        case "tools/list":
            end = {"result": list_tools()}
        case "tools/call":
            end = {"result": call_tool(**params)}
        case _:
            end = {"error": {"code": -32601, "message": "Method not found"}}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **end}), flush=True)

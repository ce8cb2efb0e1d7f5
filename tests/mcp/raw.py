"""An MCP server over stdio, in lines of JSON without the SDK, that says what its script says: `python raw.py SCRIPT`.

The script is JSON: `tools` (the list) or `pages` (by cursor; `?` is the first one), `answers` (the result of each tool), `resources` (contents by
URI), `instructions`, `shuffle` (another order in each listing), and `lines` (the whole answer of each tool as it is written, with `@ID@` for the request's
id). A tool without an answer gives its name and arguments.
"""

import json
import random
import sys
from typing import Any

SCRIPT = json.loads(sys.argv[1])
order = random.Random(7)


def answer(request: dict[str, Any], result: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)


def refuse(request: dict[str, Any], code: int, message: str) -> None:
    error = {"code": code, "message": message}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}), flush=True)


def initialized(given: dict[str, Any]) -> dict[str, Any]:
    can: dict[str, Any] = {"tools": {"listChanged": True}}
    if "resources" in SCRIPT:
        can["resources"] = {}
    says = {"instructions": SCRIPT["instructions"]} if "instructions" in SCRIPT else {}
    info = {"name": "raw", "version": "1"}
    return {"protocolVersion": given["protocolVersion"], "capabilities": can, "serverInfo": info, **says}


def listing(request: dict[str, Any]) -> None:
    if "pages" in SCRIPT:
        page = SCRIPT["pages"].get((request.get("params") or {}).get("cursor", "?"))
        refuse(request, -32602, "no such cursor") if page is None else answer(request, page)
        return
    tools = [*SCRIPT["tools"]]
    if SCRIPT.get("shuffle"):
        order.shuffle(tools)
    answer(request, {"tools": tools})


for line in sys.stdin:
    message = json.loads(line)
    params = message.get("params") or {}
    match message.get("method"):
        case "initialize":
            answer(message, initialized(params))
        case "tools/list":
            listing(message)
        case "tools/call" if params["name"] in SCRIPT.get("lines", {}):
            print(SCRIPT["lines"][params["name"]].replace("@ID@", json.dumps(message["id"])), flush=True)
        case "tools/call":
            echo = {
                "content": [],
                "structuredContent": {"name": params["name"], "arguments": params.get("arguments")},
            }
            answer(message, SCRIPT.get("answers", {}).get(params["name"], echo))
        case "resources/list":
            listed = [{"uri": uri, "name": uri} for uri in SCRIPT["resources"]]
            answer(message, {"resources": listed})
        case "resources/templates/list":
            answer(message, {"resourceTemplates": SCRIPT.get("templates", [])})
        case "resources/read" if params["uri"] in SCRIPT.get("resources", {}):
            answer(message, {"contents": SCRIPT["resources"][params["uri"]]})
        case "resources/read":
            refuse(message, -32002, "Resource not found")
        case _ if "id" in message:
            refuse(message, -32601, "Method not found")

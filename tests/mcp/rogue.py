"""An MCP server over stdio, without the SDK, that breaks the protocol in one way: `python rogue.py WAY`.

In some ways it breaks nothing: `process` says which process it is, crashes, or starts a child, `environment` gives its
environment, `noise` writes 1,000 lines of errors, and `lists` counts its listings.
"""

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

WAY = sys.argv[1]
GOOD = {"name": "good", "inputSchema": {"type": "object"}}
BROKEN = [
    5,
    {"name": "no-schema"},
    {"name": 7, "inputSchema": {"type": "object"}},
    {"name": "not-an-object", "inputSchema": {"type": "array"}},
    {"name": "bad-title", "title": 5, "inputSchema": {"type": "object"}},
    {"name": "bad-words", "inputSchema": {"type": "object", "properties": {"a": {"type": "strin"}}}},
    {"name": "endless", "inputSchema": {"type": "object", "allOf": [{"$ref": "#"}]}},
    {"name": "huge", "inputSchema": {"type": "object", "description": "x" * 200_000}},
    {
        "name": "bad-result",
        "inputSchema": {"type": "object"},
        "outputSchema": {"type": "object", "required": 1},
    },
]

RULES = {"type": "array", "items": {"allOf": [{"multipleOf": 1}] * 300}}
COSTLY = {
    "name": "good",
    "inputSchema": {"type": "object", "properties": {"rows": RULES}},
    "outputSchema": {"type": "object", "properties": {"rows": RULES}},
}

ASKED: dict[str, dict[str, Any]] = {
    "elicitation/create": {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}},
    "sampling/createMessage": {"messages": [], "maxTokens": 5},
    "roots/list": {},
    "ping": {},
}


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def answer(request: dict[str, Any], result: dict[str, Any]) -> None:
    send({"id": request["id"], "result": result})


def listing(request: dict[str, Any]) -> dict[str, Any]:
    cursor = (request.get("params") or {}).get("cursor")
    if WAY == "pages":
        number = int(cursor or 0)
        tools = [{**GOOD, "name": f"tool-{number}-{each}"} for each in range(30)]
        return {"tools": tools, "nextCursor": str(number + 1)}
    if WAY == "circle":
        return {"tools": [GOOD], "nextCursor": "again"}
    if WAY == "costly":
        return {"tools": [COSTLY]}
    if WAY == "process":
        return {"tools": [{**GOOD, "name": name} for name in ("pids", "crash", "child")]}
    if WAY == "broken-tools":
        return {"tools": [*BROKEN, GOOD, {**GOOD, "description": "twice"}]}
    return {"tools": [GOOD]}


def call(request: dict[str, Any]) -> None:  # noqa: PLR0912
    match WAY:
        case "silent":
            return
        case "garbage":
            print("this is no JSON \x1b[31m", flush=True)
            print("[" * 5_000, flush=True)
            answer(request, {"content": [{"type": "resource", "resource": {"uri": "x", "blob": 5}}]})
        case "strange-content":
            answer(request, {"content": [{"type": "hologram", "data": 5}]})
        case "costly":
            answer(request, {"content": [], "structuredContent": {"rows": list(range(300))}})
        case "deep":
            value: Any = 1
            for _ in range(150):
                value = [value]
            answer(request, {"content": [], "structuredContent": {"deep": value}})
        case "half-line":
            print('Ready. {"jsonrpc": "2.0", "id": 99, "resu', end="", flush=True)
            answer(request, {"content": [{"type": "text", "text": "after"}]})
        case "long-line":
            print("x" * 20_000_000, flush=True)
            answer(request, {"content": [{"type": "text", "text": "after"}]})
        case "refuses":
            send({"id": request["id"], "error": {"code": -32602, "message": "`a` is \x1b[31mtoo small"}})
        case "unknown":
            send({"id": request["id"], "error": {"code": -32601, "message": "no such method"}})
        case "unknown-tool":
            send({"id": request["id"], "error": {"code": -32000, "message": "Unknown tool: good"}})
        case "asks":
            for method, params in ASKED.items():
                send({"id": method, "method": method, "params": params})
                while (got := json.loads(next(sys.stdin))).get("id") != method:
                    pass
                told.append(f"{method}: {got['error']['code'] if 'error' in got else 'answered'}")
            answer(request, {"content": [{"type": "text", "text": ", ".join(told)}]})
        case "can":
            answer(request, {"content": [{"type": "text", "text": json.dumps(capabilities)}]})
        case "process" if request["params"]["name"] == "crash":
            os._exit(3)
        case "process":
            pids = {"own": os.getpid()}
            if request["params"]["name"] == "child":
                pids["child"] = subprocess.Popen(["sleep", "600"]).pid
            answer(request, {"content": [], "structuredContent": pids})
        case "environment":
            answer(request, {"content": [], "structuredContent": dict(os.environ)})
        case "noise":
            given, token = request["params"].get("arguments") or {}, os.environ["TOKEN"]
            for line in range(given.get("lines", 1_000)):
                start, end = "x" * given.get("before", 0), "y" * given.get("after", 0)
                print(f"{start}noise {line} {token} \x1b[31m{end}", file=sys.stderr, flush=True)
            answer(request, {"content": []})
        case "lists":
            answer(request, {"content": [{"type": "text", "text": str(listings)}]})
        case "changes":
            for _ in range(200):
                send({"method": "notifications/tools/list_changed"})
            answer(request, {"content": [{"type": "text", "text": str(listings)}]})
        case _:
            answer(request, {"content": [{"type": "text", "text": "done"}]})


listings = 0
told: list[str] = []
capabilities: dict[str, Any] = {}
if WAY == "dies":
    sys.exit("cannot start: no licence")
if WAY == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(
        [sys.executable, "-c", "import signal,time; signal.signal(15, 1); time.sleep(600)"]
    )
    GOOD["description"] = f"{os.getpid()} {child.pid}"
for line in sys.stdin:
    message = json.loads(line)
    match message.get("method"):
        case "initialize" if WAY != "mute":
            capabilities = message["params"]["capabilities"]
            if WAY == "too-new":
                version = "2999-01-01"
            else:
                version = message["params"]["protocolVersion"]
            server = {"name": "rogue", "version": "1"}
            tools = {"tools": {"listChanged": True}}
            answer(message, {"protocolVersion": version, "capabilities": tools, "serverInfo": server})
        case "server/discover" if WAY != "mute":
            send({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})
        case "tools/list":
            listings += 1
            answer(message, listing(message))
        case "tools/call":
            call(message)
if WAY == "stubborn":
    time.sleep(600)

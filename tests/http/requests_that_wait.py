"""Requests that wait, and those of streams, one of each kind, as bytes on a connection: so that a client can vanish from any of them."""

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2

__all__ = ["WAITING", "Connection", "answering", "connected", "request_of", "requests", "streams"]

RPC = {"Accept": "application/json, text/event-stream"}
MODERN = "2026-07-28"


def request_of(kind: str, text: str, *, run_id: str = "", session_id: str = "") -> tuple[str, str, Any, Any]:
    """A request of one kind: the method, the path, headers, and a body."""
    session_id = session_id or uuid.uuid4().hex
    message = {"role": "ROLE_USER", "parts": [{"text": text}], "messageId": uuid.uuid4().hex}
    call: dict[str, Any] = {"name": "shop_clerk", "arguments": {"message": text, "session_id": session_id}}
    rpc = {"jsonrpc": "2.0", "id": 1}
    match kind:
        case "output":
            return "GET", f"/v1/runs/{run_id}/output?wait=60", {}, None
        case "message":
            path = f"/v1/sessions/shop.clerk/{session_id}/messages?wait=60"
            return "POST", path, {}, {"text": text}
        case "chat":
            body = {"model": "shop.clerk", "messages": [{"role": "user", "content": text}]}
            return "POST", "/openai/v1/chat/completions", {}, {**body, "metadata": {"session_id": session_id}}
        case "response":
            body = {"model": "shop.clerk", "input": text, "conversation": session_id}
            return "POST", "/openai/v1/responses", {}, body
        case "a2a":
            params = {"message": {**message, "contextId": session_id}}
            path, headers = "/a2a/shop.clerk", {**RPC, "A2A-Version": "1.0"}
            return "POST", path, headers, {**rpc, "method": "SendMessage", "params": params}
        case "mcp":
            headers = {**RPC, "MCP-Protocol-Version": "2025-06-18"}
            return "POST", "/mcp", headers, {**rpc, "method": "tools/call", "params": call}
        case "mcp of 2026":
            about = "io.modelcontextprotocol"
            call["_meta"] = {
                f"{about}/protocolVersion": MODERN,
                f"{about}/clientInfo": {"name": "test", "version": "1"},
                f"{about}/clientCapabilities": {},
            }
            named = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "shop_clerk"}
            return "POST", "/mcp", {**RPC, **named}, {**rpc, "method": "tools/call", "params": call}
    raise AssertionError(kind)


WAITING = ("output", "message", "chat", "response", "a2a", "mcp", "mcp of 2026")
"""Every kind of request that waits."""


def streams(session_id: str, run_id: str, text: str = "sleep") -> dict[str, tuple[str, str, Any, Any]]:
    """A request of a stream of each protocol."""
    rpc = {"Accept": "application/json, text/event-stream"}
    message = {"role": "ROLE_USER", "parts": [{"text": text}], "messageId": uuid.uuid4().hex}
    sent = {"message": {**message, "contextId": session_id}}
    part = {"type": "text", "text": text}
    agui = {
        "threadId": session_id,
        "runId": "r-1",
        "tools": [],
        "context": [],
        "state": {},
        "forwardedProps": {},
    }
    agui["messages"] = [{"id": "m-1", "role": "user", "content": text}]
    vercel = {"id": session_id, "messages": [{"id": "m-2", "role": "user", "parts": [part]}]}
    a2a = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": sent}
    return {
        "events": ("GET", f"/v1/runs/{run_id}/events", {"Accept": "text/event-stream"}, None),
        "agui": ("POST", "/agui/shop.clerk", {}, agui),
        "vercel": ("POST", "/vercel/shop.clerk", {}, {**vercel, "trigger": "submit-message"}),
        "chat as a stream": (
            "POST",
            "/openai/v1/chat/completions",
            {},
            {**request_of("chat", text, session_id=session_id)[3], "stream": True},
        ),
        "a2a as a stream": ("POST", "/a2a/shop.clerk", {**rpc, "A2A-Version": "1.0"}, a2a),
    }


class Connection:
    """A connection on which one request was sent."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.head = b""

    async def begins(self) -> None:
        """Wait until the answer begins."""
        self.head = await self.reader.readuntil(b"\r\n\r\n")

    async def vanish(self) -> None:
        """Close the connection, as a client does that is killed."""
        self.writer.transport.abort()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()

    async def answer(self) -> httpx2.Response:
        """The answer, to its end or to where the connection breaks; its extension `is_whole` says which."""
        data = self.head + await self.reader.read()
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = [tuple(line.split(": ", 1)) for line in lines]
        is_chunked = ("transfer-encoding", "chunked") in [(k.lower(), v) for k, v in headers]
        is_whole = body.endswith(b"0\r\n\r\n") if is_chunked else bool(body)
        parts = b"".join(_chunks(body)) if is_chunked else body
        kept = [(k, v) for k, v in headers if k.lower() not in ("transfer-encoding", "content-length")]
        status = int(first.split()[1])
        return httpx2.Response(status, headers=kept, content=parts, extensions={"is_whole": is_whole})


def _chunks(body: bytes) -> Iterator[bytes]:
    """The parts of a body in chunks, as far as it came."""
    while body:
        size, _, body = body.partition(b"\r\n")
        yield body[: int(size, 16)]
        body = body[int(size, 16) + 2 :]


@contextlib.asynccontextmanager
async def connected(
    url: str, method: str, path: str, headers: dict[str, str], body: Any, *, key: str = ""
) -> AsyncIterator[Connection]:
    """Send a request on a connection of its own."""
    at = httpx2.URL(url)
    reader, writer = await asyncio.open_connection(at.host, at.port)
    try:
        data = b"" if body is None else json.dumps(body).encode()
        head = {
            "Host": f"{at.host}:{at.port}",
            "Content-Length": str(len(data)),
            "Connection": "close",
            **headers,
        }
        head |= {"Authorization": f"Bearer {key}"} if key else {}
        head |= {"Content-Type": "application/json"} if data else {}
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        writer.write(f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + data)
        await writer.drain()
        yield Connection(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


OF_THE_PROCESS = ("_shutdown_watcher", "_watch")
"""Tasks that a process has once, whatever is asked of it, of sse-starlette and of the service: they look whether the server stops."""

OURS = ("sojourn/http", "sojourn/events", "uvicorn/protocols", "/mcp/", "sse_starlette", "fasta2a")


def answering() -> list[str]:
    """The tasks of this process that answer requests, or read for them."""
    found = []
    for task in asyncio.all_tasks():
        code = getattr(task.get_coro(), "cr_code", None) or getattr(task.get_coro(), "ag_code", None)
        if code and code.co_name not in OF_THE_PROCESS and any(each in code.co_filename for each in OURS):
            found.append(f"{task.get_name()}: {task.get_coro().__qualname__}")
    return found


def requests() -> int:
    """How many requests are being answered."""
    return sum("run_asgi" in each for each in answering())

"""The formats of the protocols, and answers as bytes."""

import json
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from tests.models.standin import anthropic_messages, openai_chat, openai_responses
from tests.models.standin.reply import ErrorKind, Reply
from tests.models.standin.request import Protocol, Request

WIRES: dict[Protocol, ModuleType] = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "anthropic": anthropic_messages,
}
MODELS: dict[Protocol, str] = {
    "openai-chat": "gpt-5-mini",
    "openai-responses": "gpt-5-mini",
    "anthropic": "claude-sonnet-4-6",
}
"""The default model of each protocol: one with a known price, which can think."""

KEY = "sk-standin"
PROTOCOLS: Sequence[Protocol] = tuple(WIRES)
BY_PATH: dict[str, Protocol] = {wire.PATH: protocol for protocol, wire in WIRES.items()}


def read(protocol: Protocol, body: dict[str, Any], headers: dict[str, str], number: int) -> Request:
    """Read a request."""
    messages, tools = WIRES[protocol].read(body)
    return Request(protocol, body, headers, messages, tools, body.get("tool_choice"), number)


def plain(reply: Reply, request: Request) -> bytes:
    """Return the body of an unstreamed answer."""
    return json.dumps(WIRES[request.protocol].answer(reply, request)).encode()


def stream(reply: Reply, request: Request) -> list[bytes]:
    """Return the events of a streamed answer, as Server-Sent Events."""
    wire = WIRES[request.protocol]
    events = list(wire.events(reply, request))
    if reply.breaks is not None:
        half = len(events) // 2
        events = [*events[:half], wire.error_event(reply.breaks, request, half)]
    return [encode_event(name, data) for name, data in events]


def error(kind: ErrorKind, request: Request) -> tuple[int, bytes]:
    """Return the status and the body of an error."""
    status, body = WIRES[request.protocol].error(kind, request)
    return status, json.dumps(body).encode()


def refusal(message: str, request: Request) -> dict[str, Any]:
    """Return the body of a refusal, which has HTTP 400."""
    error = {"type": "invalid_request_error", "message": message}
    if request.protocol == "anthropic":
        return {"type": "error", "error": error, "request_id": "req_standin"}
    return {"error": {**error, "param": None, "code": None}}


def encode_event(name: str | None, data: dict[str, Any] | str) -> bytes:
    """Return one event; only Chat Completions has events without names."""
    text = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


def environment(url: str) -> dict[str, str]:
    """Return the environment variables with which models by name, such as `openai:gpt-5-mini`, use a stand-in."""
    return {
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": KEY,
    }

"""The formats of the protocols, and answers as bytes."""

import json
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from tests.models.standin import anthropic_messages, google_gemini, openai_chat, openai_responses
from tests.models.standin.reply import ErrorKind, Reply
from tests.models.standin.request import Protocol, Request

WIRES: dict[Protocol, ModuleType] = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "anthropic": anthropic_messages,
    "google": google_gemini,
}
MODELS: dict[Protocol, str] = {
    "openai-chat": "gpt-5-mini",
    "openai-responses": "gpt-5-mini",
    "anthropic": "claude-sonnet-4-6",
    "google": "gemini-3.8-flash",
}
"""The default model of each protocol: one with a known price, which can think."""

KEY = "sk-standin"
PROTOCOLS: Sequence[Protocol] = tuple(protocol for protocol in WIRES if protocol != "google")
"""Those whose calls have ids, and texts of arguments, on the wire."""
_BY_PATH: dict[str, Protocol] = {
    wire.PATH: protocol for protocol, wire in WIRES.items() if isinstance(wire.PATH, str)
}


def protocol_at(path: str) -> Protocol | None:
    """Return the protocol of a path; None where the stand-in has nothing there."""
    return "google" if google_gemini.PATH.match(path) else _BY_PATH.get(path)


def read(
    protocol: Protocol, body: dict[str, Any], headers: dict[str, str], number: int, path: str = ""
) -> Request:
    """Read a request; in Google's, the path says which model is asked, and whether for a stream."""
    messages, tools = WIRES[protocol].read(body)
    choice = body.get("toolConfig" if protocol == "google" else "tool_choice")
    request = Request(protocol, body, headers, messages, tools, choice, number)
    if found := google_gemini.PATH.match(path):
        request.model, request.stream = found[1], ":stream" in path
    return request


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
    if request.protocol == "google":
        return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}
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
        "GOOGLE_GEMINI_BASE_URL": url,
        "GOOGLE_API_KEY": KEY,
    }

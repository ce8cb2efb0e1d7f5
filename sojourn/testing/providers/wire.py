"""Read requests, and write answers and errors, in the format of each protocol.

Clients tell errors apart by status and body. Google's daily quota and its rate limit differ only in the
quota that the details name, its wrong key only in their reason.
"""

import json
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final

from sojourn.testing.providers import anthropic_messages, google_gemini, openai_chat, openai_responses
from sojourn.testing.providers.request import Protocol, Request
from sojourn.testing.providers.script import Completion, ErrorKind

__all__ = ["MODELS", "PROTOCOLS", "WIRES", "error", "plain", "protocol_at", "read", "refusal", "stream"]

WIRES: Final[dict[Protocol, ModuleType]] = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "anthropic": anthropic_messages,
    "google": google_gemini,
}
MODELS: Final[dict[Protocol, str]] = {
    "openai-chat": "gpt-5-mini",
    "openai-responses": "gpt-5-mini",
    "anthropic": "claude-sonnet-4-6",
    "google": "gemini-3.8-flash",
}

PROTOCOLS: Final[Sequence[Protocol]] = tuple(WIRES)

_BY_PATH: Final[dict[str, Protocol]] = {
    wire.PATH: protocol for protocol, wire in WIRES.items() if isinstance(wire.PATH, str)
}

_OPENAI: Final[dict[ErrorKind, tuple[int, str, str | None, str]]] = {
    "bad_request": (400, "invalid_request_error", None, "Invalid value for 'temperature'."),
    "content_filter": (
        400,
        "invalid_request_error",
        "content_filter",
        "The response was filtered due to the prompt triggering our content management policy.",
    ),
    "image": (
        400,
        "invalid_request_error",
        "invalid_image_format",
        "You uploaded an unsupported image. Please make sure your image has of one the following formats: png.",
    ),
    "context_length": (
        400,
        "invalid_request_error",
        "context_length_exceeded",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
    ),
    "forbidden": (
        403,
        "invalid_request_error",
        "unsupported_country_region_territory",
        "Country, region, or territory not supported",
    ),
    "overloaded": (
        503,
        "service_unavailable_error",
        "server_is_overloaded",
        "Our servers are currently overloaded. Please try again later.",
    ),
    "quota": (
        429,
        "insufficient_quota",
        "insufficient_quota",
        "You exceeded your current quota, please check your plan and billing details.",
    ),
    "rate_limit": (
        429,
        "requests",
        "rate_limit_exceeded",
        "Rate limit reached for {model} on requests per min (RPM): Limit 3, Used 3, Requested 1.",
    ),
    "server_error": (
        500,
        "server_error",
        None,
        "The server had an error while processing your request. Sorry about that!",
    ),
    "unauthorized": (
        401,
        "invalid_request_error",
        "invalid_api_key",
        "Incorrect API key provided: sk-stand*****.",
    ),
    "unknown_model": (
        404,
        "invalid_request_error",
        "model_not_found",
        "The model `{model}` does not exist or you do not have access to it.",
    ),
}

_ANTHROPIC: Final[dict[ErrorKind, tuple[int, str, str]]] = {
    "bad_request": (400, "invalid_request_error", "temperature: range: 0..1"),
    "context_length": (400, "invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"),
    "content_filter": (400, "invalid_request_error", "Output blocked by content filtering policy"),
    "image": (400, "invalid_request_error", "messages.0.content.1.image.source: Could not process image"),
    "forbidden": (403, "permission_error", "Your API key does not have permission to use the resource."),
    "overloaded": (529, "overloaded_error", "Overloaded"),
    "quota": (
        400,
        "invalid_request_error",
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.",
    ),
    "rate_limit": (429, "rate_limit_error", "This request would exceed your organization's rate limit."),
    "server_error": (500, "api_error", "Internal server error"),
    "unauthorized": (401, "authentication_error", "invalid x-api-key"),
    "unknown_model": (404, "not_found_error", "model: {model}"),
}

_EXCEEDED = "You exceeded your current quota, please check your plan and billing details."

_GOOGLE: Final[dict[ErrorKind, tuple[int, str, str]]] = {
    "bad_request": (400, "INVALID_ARGUMENT", "Invalid value at 'generation_config.temperature'"),
    "content_filter": (400, "INVALID_ARGUMENT", "The prompt was blocked by the content filter."),
    "context_length": (
        400,
        "INVALID_ARGUMENT",
        "The input token count (1250000) exceeds the maximum number of tokens allowed (1048576).",
    ),
    "forbidden": (
        403,
        "PERMISSION_DENIED",
        "Your project does not have permission to access the Gemini API.",
    ),
    "image": (400, "INVALID_ARGUMENT", "Unable to process input image."),
    "overloaded": (503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
    "quota": (429, "RESOURCE_EXHAUSTED", _EXCEEDED),
    "rate_limit": (429, "RESOURCE_EXHAUSTED", _EXCEEDED),
    "server_error": (500, "INTERNAL", "An internal error has occurred."),
    "unauthorized": (400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."),
    "unknown_model": (
        404,
        "NOT_FOUND",
        "models/{model} is not found for API version v1beta, or is not supported for generateContent.",
    ),
}

_RPC = "type.googleapis.com/google.rpc"

_DETAILS: Final[dict[ErrorKind, dict[str, Any]]] = {
    "quota": {
        "@type": f"{_RPC}.QuotaFailure",
        "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier", "quotaValue": "250"}],
    },
    "rate_limit": {
        "@type": f"{_RPC}.QuotaFailure",
        "violations": [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}],
    },
    "unauthorized": {
        "@type": f"{_RPC}.ErrorInfo",
        "reason": "API_KEY_INVALID",
        "domain": "googleapis.com",
        "metadata": {"service": "generativelanguage.googleapis.com"},
    },
}
"""The details of those errors of Google that only their details tell apart."""


def protocol_at(path: str) -> Protocol | None:
    return "google" if google_gemini.PATH.match(path) else _BY_PATH.get(path)


def read(
    protocol: Protocol, body: dict[str, Any], headers: dict[str, str], number: int, path: str = ""
) -> Request:
    """Read a request. Google's path names the model, and whether to stream."""
    messages, tools = WIRES[protocol].read(body)
    choice = body.get("toolConfig" if protocol == "google" else "tool_choice")
    request = Request(protocol, body, headers, messages, tools, choice, number)
    if found := google_gemini.PATH.match(path):
        request.model, request.stream = found[1], ":stream" in path
    return request


def plain(reply: Completion, request: Request) -> bytes:
    return json.dumps(WIRES[request.protocol].answer(reply, request)).encode()


def stream(reply: Completion, request: Request) -> list[bytes]:
    events = list(WIRES[request.protocol].events(reply, request))
    if reply.breaks is not None:
        half = len(events) // 2
        events = [*events[:half], _error_event(reply.breaks, request, half)]
    return [_encode_event(name, data) for name, data in events]


def error(kind: ErrorKind, request: Request) -> tuple[int, bytes]:
    status, body = _error_of(kind, request)
    return status, json.dumps(body).encode()


def refusal(message: str, request: Request, status: int = 400) -> dict[str, Any]:
    if request.protocol == "google":
        return {"error": {"code": status, "message": message, "status": "INVALID_ARGUMENT"}}
    found = {"type": "request_too_large" if status == 413 else "invalid_request_error", "message": message}
    if request.protocol == "anthropic":
        return {"type": "error", "error": found, "request_id": "req_standin"}
    return {"error": {**found, "param": None, "code": None}}


def _error_of(kind: ErrorKind, request: Request) -> tuple[int, dict[str, Any]]:
    if request.protocol == "google":
        status, name, message = _GOOGLE[kind]
        found: dict[str, Any] = {
            "code": status,
            "message": message.format(model=request.model),
            "status": name,
        }
        return status, {"error": found | ({"details": [_DETAILS[kind]]} if kind in _DETAILS else {})}
    if request.protocol == "anthropic":
        status, name, message = _ANTHROPIC[kind]
        found = {"type": name, "message": message.format(model=request.model)}
        return status, {"type": "error", "error": found, "request_id": "req_standin"}
    status, name, code, message = _OPENAI[kind]
    param = "model" if kind == "unknown_model" else None
    found = {"message": message.format(model=request.model), "type": name, "param": param, "code": code}
    return status, {"error": found}


def _error_event(kind: ErrorKind, request: Request, number: int) -> tuple[str | None, dict[str, Any]]:
    """Return the event of an error that ends a stream.

    Responses nests the error, unlike its specification.
    """
    body = _error_of(kind, request)[1]
    match request.protocol:
        case "anthropic":
            return "error", body
        case "openai-responses":
            return "error", {"type": "error", **body, "sequence_number": number}
        case _:
            return None, body


def _encode_event(name: str | None, data: dict[str, Any] | str) -> bytes:
    """Return one event. Those of Chat Completions and of Google have no names."""
    text = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()

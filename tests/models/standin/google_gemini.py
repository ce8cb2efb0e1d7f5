"""The format of Google's Gemini API: `POST /v1beta/models/MODEL:generateContent`, and `:streamGenerateContent` for a stream."""

import json
import re
import uuid
from collections.abc import Iterator
from typing import Any

from tests.models.standin.reply import (
    ErrorKind,
    Refusal,
    Reply,
    Text,
    Thinking,
    ToolCall,
    Usage,
    natural_finish,
    object_of,
    pieces,
)
from tests.models.standin.request import Message, Request, ToolOffer, ToolResult

PATH = re.compile(r"/v1beta/models/([^/:]+):(?:streamG|g)enerateContent\Z")
FINISH = {"stop": "STOP", "tool_call": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}
ROLES: dict[str, Any] = {"model": "assistant", "user": "user"}

Event = tuple[str | None, dict[str, Any] | str]


def read(body: dict[str, Any]) -> tuple[list[Message], list[ToolOffer]]:
    """Return the messages and the tools of a request."""
    system = body.get("systemInstruction")
    messages = [Message("system", text_of(system["parts"]))] if system else []
    for content in body["contents"]:
        messages += read_content(content)
    tools = [
        ToolOffer(
            one["name"],
            one.get("description", ""),
            one.get("parameters_json_schema")
            or one.get("parametersJsonSchema", {}),  # as pydantic-ai spells it
        )
        for tool in body.get("tools", [])
        for one in tool.get("functionDeclarations", [])
    ]
    return messages, tools


def read_content(content: dict[str, Any]) -> Iterator[Message]:
    """Yield a content as messages of all protocols: each function's response is a message of its own, before the text beside it."""
    rest = Message(ROLES[content.get("role", "user")], text_of(content["parts"]))
    for part in content["parts"]:
        if result := part.get("functionResponse"):
            response = result["response"]
            text = response.get("return_value", response.get("call_error", response))
            found = ToolResult(
                result.get("id") or result["name"], text if isinstance(text, str) else json.dumps(text)
            )
            yield Message("tool", tool_results=[found])
        elif call := part.get("functionCall"):
            arguments = json.dumps(call.get("args", {}))
            rest.tool_calls.append(
                ToolCall(id=call.get("id") or call["name"], name=call["name"], arguments=arguments)
            )
        elif part.get("thought"):
            rest.thinking += part["text"]
        rest.signature += part.get("thoughtSignature", "")
    if rest.text or rest.tool_calls or rest.thinking:
        yield rest


def text_of(parts: list[dict[str, Any]]) -> str:
    """Return the texts of parts, without thoughts, as one text."""
    return "".join(part.get("text", "") for part in parts if not part.get("thought"))


def answer(reply: Reply, request: Request) -> dict[str, Any]:
    """Return the complete response, a `GenerateContentResponse`."""
    parts = [made for part in reply.parts if (made := part_of(part)) is not None]
    return chunk(reply, request, parts, finish=finish_of(reply))


def events(reply: Reply, request: Request) -> Iterator[Event]:
    """Yield the response as a stream of `GenerateContentResponse`; a call comes whole."""
    id = new_id()
    for part in reply.parts:
        if isinstance(part, Text | Thinking):
            for piece in pieces(part.text, reply.piece):
                whole = part_of(part.model_copy(update={"text": piece}))
                yield None, chunk(reply, request, [whole], id=id)
        elif (made := part_of(part)) is not None:
            yield None, chunk(reply, request, [made], id=id)
    yield None, chunk(reply, request, [], finish=finish_of(reply), id=id)


def chunk(
    reply: Reply, request: Request, parts: list[Any], *, finish: str | None = None, id: str = ""
) -> dict[str, Any]:
    """Return a response with these parts; the whole one and the last of a stream have a finish reason."""
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return {
        "candidates": [candidate],
        "usageMetadata": usage_of(reply.usage),
        "modelVersion": request.model,
        "responseId": id or new_id(),
    }


def part_of(part: Text | Thinking | ToolCall | Refusal) -> dict[str, Any] | None:
    """Return a part of the response; None for a refusal, which is a finish reason."""
    match part:
        case Text():
            return {"text": part.text}
        case Thinking():
            return {"text": part.text, "thought": True, "thoughtSignature": part.signature}
        case ToolCall():
            call = {"name": part.name, "args": object_of(part.arguments)}
            return {"functionCall": call | ({"id": part.id} if part.id else {})}
        case Refusal():
            return None


def finish_of(reply: Reply) -> str:
    """Return the finish reason of the protocol."""
    if reply.finish is None and any(isinstance(part, Refusal) for part in reply.parts):
        return FINISH["content_filter"]
    finish = natural_finish(reply)
    return FINISH.get(finish, finish)


def error(kind: ErrorKind, request: Request) -> tuple[int, dict[str, Any]]:
    """Return the status and the body of an error."""
    status, name, message = {
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
        "quota": (429, "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted."),
        "rate_limit": (429, "RESOURCE_EXHAUSTED", "You exceeded your current rate; please retry in 20s."),
        "server_error": (500, "INTERNAL", "An internal error has occurred."),
        "unauthorized": (400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."),
        "unknown_model": (
            404,
            "NOT_FOUND",
            f"models/{request.model} is not found for API version v1beta, or is not supported for generateContent.",
        ),
    }[kind]
    return status, {"error": {"code": status, "message": message, "status": name}}


def error_event(kind: ErrorKind, request: Request, number: int) -> Event:
    """Return the event of an error that ends a stream."""
    return None, error(kind, request)[1]


def usage_of(usage: Usage) -> dict[str, Any]:
    """Return the usage; the prompt tokens include the cached tokens."""
    return {
        "promptTokenCount": usage.input,
        "candidatesTokenCount": usage.output,
        "totalTokenCount": usage.input + usage.output,
        "cachedContentTokenCount": usage.cached,
    }


def new_id() -> str:
    """Return a new id of a response."""
    return uuid.uuid4().hex[:22]

"""The format of Google's Gemini API: `POST /v1beta/models/MODEL:generateContent`.

For a stream, the path ends with `:streamGenerateContent`.
"""

import json
import re
import uuid
from collections.abc import Iterator
from typing import Any

from sojourn.testing.providers.request import ChatMessage, Request, ToolCall, ToolOffer, ToolOutput
from sojourn.testing.providers.script import (
    Completion,
    Refusal,
    ReportedUsage,
    Text,
    Thinking,
    natural_finish,
    object_of,
    pieces,
)

PATH = re.compile(r"/v1beta/models/([^/:]+):(?:streamG|g)enerateContent\Z")
FINISH = {"stop": "STOP", "tool_call": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}
ROLES: dict[str, Any] = {"model": "assistant", "user": "user"}

Event = tuple[str | None, dict[str, Any] | str]


def read(body: dict[str, Any]) -> tuple[list[ChatMessage], list[ToolOffer]]:
    system = body.get("systemInstruction")
    messages = [ChatMessage("system", text_of(system["parts"]))] if system else []
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


def read_content(content: dict[str, Any]) -> Iterator[ChatMessage]:
    """Yield a content as messages of all protocols, first each function's response."""
    rest = ChatMessage(ROLES[content.get("role", "user")], text_of(content["parts"]))
    for part in content["parts"]:
        if result := part.get("functionResponse"):
            response = result["response"]
            text = response.get("return_value", response.get("call_error", response))
            found = ToolOutput(
                result.get("id") or result["name"], text if isinstance(text, str) else json.dumps(text)
            )
            yield ChatMessage("tool", tool_results=[found])
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
    return "".join(part.get("text", "") for part in parts if not part.get("thought"))


def answer(reply: Completion, request: Request) -> dict[str, Any]:
    parts = [made for part in reply.parts if (made := part_of(part)) is not None]
    return chunk(reply, request, parts, finish=finish_of(reply))


def events(reply: Completion, request: Request) -> Iterator[Event]:
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
    reply: Completion, request: Request, parts: list[Any], *, finish: str | None = None, id: str = ""
) -> dict[str, Any]:
    """Return a response with these parts, and a finish reason in the last one."""
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
    """Return a part of the response, or None for a refusal, a finish reason here."""
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


def finish_of(reply: Completion) -> str:
    if reply.finish is None and any(isinstance(part, Refusal) for part in reply.parts):
        return FINISH["content_filter"]
    finish = natural_finish(reply)
    return FINISH.get(finish, finish)


def usage_of(usage: ReportedUsage) -> dict[str, Any]:
    return {
        "promptTokenCount": usage.input,
        "candidatesTokenCount": usage.output,
        "totalTokenCount": usage.input + usage.output,
        "cachedContentTokenCount": usage.cached,
    }


def new_id() -> str:
    return uuid.uuid4().hex[:22]

"""The format of Anthropic's Messages API: `POST /v1/messages`."""

import json
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

PATH = "/v1/messages"
FINISH = {"stop": "end_turn", "tool_call": "tool_use", "length": "max_tokens", "content_filter": "refusal"}

Event = tuple[str | None, dict[str, Any] | str]


def read(body: dict[str, Any]) -> tuple[list[ChatMessage], list[ToolOffer]]:
    messages = [ChatMessage("system", text_of(body["system"]))] if body.get("system") else []
    for message in body["messages"]:
        messages += read_message(message)
    tools = [
        ToolOffer(tool["name"], tool.get("description", ""), tool["input_schema"], tool.get("strict"))
        for tool in body.get("tools", [])
        if "input_schema" in tool
    ]
    return messages, tools


def read_message(message: dict[str, Any]) -> Iterator[ChatMessage]:
    """Yield a message as messages of all protocols, first each tool result."""
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    rest = ChatMessage(message["role"], text_of(blocks))
    for block in blocks:
        if block["type"] == "tool_result":
            text = text_of(block.get("content", ""))
            result = ToolOutput(block["tool_use_id"], text, bool(block.get("is_error")))
            yield ChatMessage("tool", tool_results=[result])
        elif block["type"] == "tool_use":
            call = ToolCall(id=block["id"], name=block["name"], arguments=json_of(block["input"]))
            rest.tool_calls.append(call)
        elif block["type"] == "thinking":
            rest.thinking += block["thinking"]
            rest.signature += block["signature"]
    if rest.text or rest.tool_calls or rest.thinking:
        yield rest


def text_of(content: str | list[dict[str, Any]]) -> str:
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def json_of(value: Any) -> str:
    return json.dumps(value)


def answer(reply: Completion, request: Request) -> dict[str, Any]:
    content = [block for part in reply.parts if (block := block_of(part)) is not None]
    return {**opening(request), "content": content, **end_of(reply), "usage": usage_of(reply.usage)}


def events(reply: Completion, request: Request) -> Iterator[Event]:
    opened = opening(request)
    usage = {**usage_of(reply.usage), "output_tokens": 1}
    message: dict[str, Any] = {
        **opened,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    yield event("message_start", message=message)
    yield event("ping")
    shown = [part for part in reply.parts if not isinstance(part, Refusal)]
    for index, part in enumerate(shown):
        yield event("content_block_start", index=index, content_block=empty_block_of(part))
        for delta in deltas_of(part, reply.piece):
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    spent = {"output_tokens": reply.usage.output}
    yield event("message_delta", delta=end_of(reply), usage=spent)
    yield event("message_stop")


def event(kind: str, **fields: Any) -> Event:
    """Return an event, whose name and `type` are the same as in the API."""
    return kind, {"type": kind, **fields}


def opening(request: Request) -> dict[str, Any]:
    return {
        "id": f"msg_{uuid.uuid4().hex[:24]}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
    }


def end_of(reply: Completion) -> dict[str, Any]:
    refusals = [part.text for part in reply.parts if isinstance(part, Refusal)]
    finish = natural_finish(reply)
    if refusals and reply.finish is None:
        finish = "content_filter"
    details = {"type": "refusal", "category": None, "explanation": refusals[0]} if refusals else None
    return {"stop_reason": FINISH.get(finish, finish), "stop_sequence": None, "stop_details": details}


def block_of(part: Text | Thinking | ToolCall | Refusal) -> dict[str, Any] | None:
    """Return a block of the complete response, or None for a refusal."""
    match part:
        case Text():
            return {"type": "text", "text": part.text, "citations": None}
        case Thinking():
            return {"type": "thinking", "thinking": part.text, "signature": part.signature}
        case ToolCall():
            return {**empty_block_of(part), "input": object_of(part.arguments)}
        case Refusal():
            return None


def empty_block_of(part: Text | Thinking | ToolCall) -> dict[str, Any]:
    match part:
        case Text():
            return {"type": "text", "text": "", "citations": None}
        case Thinking():
            return {"type": "thinking", "thinking": "", "signature": ""}
        case ToolCall():
            return {"type": "tool_use", "id": part.id or new_id(), "name": part.name, "input": {}}


def deltas_of(part: Text | Thinking | ToolCall, size: int) -> Iterator[dict[str, Any]]:
    match part:
        case Text():
            yield from ({"type": "text_delta", "text": piece} for piece in pieces(part.text, size))
        case Thinking():
            yield from ({"type": "thinking_delta", "thinking": piece} for piece in pieces(part.text, size))
            yield {"type": "signature_delta", "signature": part.signature}
        case ToolCall():
            yield {"type": "input_json_delta", "partial_json": ""}
            for piece in pieces(part.arguments, size):
                yield {"type": "input_json_delta", "partial_json": piece}


def usage_of(usage: ReportedUsage) -> dict[str, Any]:
    """Return the usage, where cached tokens are not among the input tokens."""
    return {
        "input_tokens": usage.input - usage.cached - usage.written,
        "output_tokens": usage.output,
        "cache_creation_input_tokens": usage.written,
        "cache_read_input_tokens": usage.cached,
        "service_tier": "standard",
    }


def new_id() -> str:
    return f"toolu_{uuid.uuid4().hex[:24]}"

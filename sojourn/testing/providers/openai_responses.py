"""The format of OpenAI's Responses API: `POST /v1/responses`."""

import uuid
from collections.abc import Iterator
from itertools import count
from typing import Any

from sojourn.testing.providers.request import ChatMessage, Request, ToolCall, ToolOffer, ToolOutput
from sojourn.testing.providers.script import (
    Completion,
    Refusal,
    ReportedUsage,
    Text,
    Thinking,
    natural_finish,
    pieces,
)

PATH = "/v1/responses"
WHOLE = {"stop", "tool_call"}
INCOMPLETE = {"length": "max_output_tokens"}
CREATED = 1_780_000_000
ROLES = {"developer": "system"}

Event = tuple[str | None, dict[str, Any] | str]
Item = dict[str, Any]


def read(body: dict[str, Any]) -> tuple[list[ChatMessage], list[ToolOffer]]:
    """Return messages and tools. Adjacent items of the model are one message."""
    messages = [ChatMessage("system", body["instructions"])] if body.get("instructions") else []
    items = body["input"]
    items = [{"role": "user", "content": items}] if isinstance(items, str) else items
    for item in items:
        role = role_of(item)
        if role != "assistant" or not messages or messages[-1].role != "assistant":
            messages.append(ChatMessage(role))
        read_into(messages[-1], item)
    tools = [
        ToolOffer(tool["name"], tool.get("description") or "", tool["parameters"], tool.get("strict"))
        for tool in body.get("tools", [])
        if tool["type"] == "function"
    ]
    return messages, tools


def role_of(item: Item) -> Any:
    if item.get("type") == "function_call_output":
        return "tool"
    return ROLES.get(item["role"], item["role"]) if "role" in item else "assistant"


def read_into(message: ChatMessage, item: Item) -> None:
    match item.get("type"):
        case "function_call":
            call = ToolCall(id=item["call_id"], name=item["name"], arguments=item["arguments"])
            message.tool_calls.append(call)
        case "function_call_output":
            message.tool_results.append(ToolOutput(item["call_id"], text_of(item["output"])))
        case "reasoning":
            message.thinking += text_of(item.get("summary") or [])
            message.signature += item.get("encrypted_content") or ""
        case _:
            message.text += text_of(item.get("content") or "")


def text_of(content: str | list[Item]) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def answer(reply: Completion, request: Request) -> dict[str, Any]:
    return closing(reply, opening(request), [item_of(part) for part in reply.parts])


def events(reply: Completion, request: Request) -> Iterator[Event]:
    numbers = count()

    def event(kind: str, **fields: Any) -> Event:
        return kind, {"type": kind, "sequence_number": next(numbers), **fields}

    opened = opening(request)
    yield event("response.created", response=opened)
    yield event("response.in_progress", response=opened)
    items = [item_of(part) for part in reply.parts]
    for index, item in enumerate(items):
        place = {"output_index": index, "item_id": item["id"]}
        yield event("response.output_item.added", output_index=index, item=empty_item_of(item))
        for kind, fields in steps_of(item, reply.piece):
            yield event(kind, **place, **fields)
        yield event("response.output_item.done", output_index=index, item=item)
    closed = closing(reply, opened, items)
    yield event(f"response.{closed['status']}", response=closed)


def opening(request: Request) -> dict[str, Any]:
    return {
        "id": f"resp_{uuid.uuid4().hex}",
        "object": "response",
        "created_at": CREATED,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": request.body.get("instructions"),
        "metadata": {},
        "model": request.model,
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": request.body.get("tool_choice", "auto"),
        "tools": request.body.get("tools", []),
        "usage": None,
    }


def closing(reply: Completion, opened: Item, output: list[Item]) -> dict[str, Any]:
    finish = natural_finish(reply)
    whole = finish in WHOLE
    return {
        **opened,
        "status": "completed" if whole else "incomplete",
        "incomplete_details": None if whole else {"reason": INCOMPLETE.get(finish, finish)},
        "output": output,
        "usage": usage_of(reply.usage),
    }


def item_of(part: Text | Thinking | ToolCall | Refusal) -> Item:
    unique = uuid.uuid4().hex
    match part:
        case Thinking():
            summary = [{"type": "summary_text", "text": part.text}]
            kept = {"encrypted_content": part.signature, "summary": summary}
            return {"type": "reasoning", "id": f"rs_{unique}", **kept}
        case ToolCall():
            return {
                "type": "function_call",
                "id": f"fc_{unique}",
                "call_id": part.id or f"call_{unique[:24]}",
                "name": part.name,
                "arguments": part.arguments,
                "status": "completed",
            }
        case Text():
            content: Item = {"type": "output_text", "text": part.text, "annotations": [], "logprobs": []}
        case Refusal():
            content = {"type": "refusal", "refusal": part.text}
    message = {"type": "message", "id": f"msg_{unique}", "role": "assistant", "status": "completed"}
    return {**message, "content": [content]}


def empty_item_of(item: Item) -> Item:
    match item["type"]:
        case "reasoning":
            return {**item, "encrypted_content": None, "summary": []}
        case "function_call":
            return {**item, "status": "in_progress", "arguments": ""}
        case _:
            return {**item, "status": "in_progress", "content": []}


def steps_of(item: Item, size: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the names and fields of the events between an item's first and last."""
    match item["type"]:
        case "reasoning":
            yield from summary_steps(item["summary"][0], size)
        case "function_call":
            name = "response.function_call_arguments"
            yield from ((f"{name}.delta", {"delta": piece}) for piece in pieces(item["arguments"], size))
            yield f"{name}.done", {"arguments": item["arguments"]}
        case _:
            yield from content_steps(item["content"][0], size)


def summary_steps(summary: Item, size: int) -> Iterator[tuple[str, dict[str, Any]]]:
    name, place = "response.reasoning_summary", {"summary_index": 0}
    yield f"{name}_part.added", {**place, "part": {**summary, "text": ""}}
    for piece in pieces(summary["text"], size):
        yield f"{name}_text.delta", {**place, "delta": piece}
    yield f"{name}_text.done", {**place, "text": summary["text"]}
    yield f"{name}_part.done", {**place, "part": summary}


def content_steps(content: Item, size: int) -> Iterator[tuple[str, dict[str, Any]]]:
    key = "text" if content["type"] == "output_text" else "refusal"
    name, place = f"response.{content['type']}", {"content_index": 0}
    logprobs: Item = {"logprobs": []} if key == "text" else {}
    yield "response.content_part.added", {**place, "part": {**content, key: ""}}
    for piece in pieces(content[key], size):
        yield f"{name}.delta", {**place, **logprobs, "delta": piece}
    yield f"{name}.done", {**place, **logprobs, key: content[key]}
    yield "response.content_part.done", {**place, "part": content}


def usage_of(usage: ReportedUsage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.input + usage.output,
    }

"""The format of OpenAI's Chat Completions API: `POST /v1/chat/completions`."""

import uuid
from collections.abc import Iterator
from typing import Any

from sojourn.testing.providers.request import ChatMessage, Request, ToolCall, ToolOffer, ToolOutput
from sojourn.testing.providers.script import Completion, Refusal, ReportedUsage, Text, natural_finish, pieces

PATH = "/v1/chat/completions"
FINISH = {"tool_call": "tool_calls"}
CREATED = 1_780_000_000
ROLES: dict[str, Any] = {"developer": "system"}

Event = tuple[str | None, dict[str, Any] | str]


def read(body: dict[str, Any]) -> tuple[list[ChatMessage], list[ToolOffer]]:
    tools = [
        ToolOffer(
            function["name"], function.get("description", ""), function["parameters"], function.get("strict")
        )
        for tool in body.get("tools", [])
        if (function := tool.get("function"))
    ]
    return [read_message(message) for message in body["messages"]], tools


def read_message(message: dict[str, Any]) -> ChatMessage:
    content = message.get("content") or ""
    text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    if message["role"] == "tool":
        return ChatMessage("tool", tool_results=[ToolOutput(message["tool_call_id"], text)])
    made: list[dict[str, Any]] = message.get("tool_calls") or []
    tool_calls = [
        ToolCall(id=call["id"], name=call["function"]["name"], arguments=call["function"]["arguments"])
        for call in made
    ]
    return ChatMessage(ROLES.get(message["role"], message["role"]), text, tool_calls=tool_calls)


def answer(reply: Completion, request: Request) -> dict[str, Any]:
    tool_calls = [
        {
            "id": call.id or new_id(),
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in reply.parts
        if isinstance(call, ToolCall)
    ]
    message = {
        "role": "assistant",
        "content": "".join(part.text for part in reply.parts if isinstance(part, Text)) or None,
        "refusal": "".join(part.text for part in reply.parts if isinstance(part, Refusal)) or None,
        "annotations": [],
        **({"tool_calls": tool_calls} if tool_calls else {}),
    }
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_of(reply)}
    return {**envelope(request, "chat.completion"), "choices": [choice], "usage": usage_of(reply.usage)}


def events(reply: Completion, request: Request) -> Iterator[Event]:
    shared = envelope(request, "chat.completion.chunk")

    def chunk(delta: dict[str, Any], finish: str | None = None) -> Event:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return None, {**shared, "choices": [choice]}

    yield chunk({"role": "assistant", "content": "", "refusal": None})
    calls = 0
    for part in reply.parts:
        if isinstance(part, ToolCall):
            head = {"index": calls, "id": part.id or new_id(), "type": "function"}
            yield chunk({"tool_calls": [{**head, "function": {"name": part.name, "arguments": ""}}]})
            for piece in pieces(part.arguments, reply.piece):
                yield chunk({"tool_calls": [{"index": calls, "function": {"arguments": piece}}]})
            calls += 1
        elif isinstance(part, Text | Refusal):
            name = "content" if isinstance(part, Text) else "refusal"
            for piece in pieces(part.text, reply.piece):
                yield chunk({name: piece})
    yield chunk({}, finish_of(reply))
    options: dict[str, Any] = request.body.get("stream_options") or {}
    if options.get("include_usage"):
        yield None, {**shared, "choices": [], "usage": usage_of(reply.usage)}
    yield None, "[DONE]"


def envelope(request: Request, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": kind,
        "created": CREATED,
        "model": request.model,
        "service_tier": "default",
        "system_fingerprint": None,
    }


def finish_of(reply: Completion) -> str:
    finish = natural_finish(reply)
    return FINISH.get(finish, finish)


def usage_of(usage: ReportedUsage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }


def new_id() -> str:
    return f"call_{uuid.uuid4().hex[:24]}"

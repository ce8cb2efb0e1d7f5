"""The messages that providers refuse: blank texts, ids of another provider, and system messages of chat templates.

The rules are those of Anthropic and OpenAI. A chat template is that of the model that a server of open models has: some
take one system message, as the first, and users and the model by turns.
"""

import re
from collections.abc import Iterator
from typing import Any

from tests.models.standin.request import Request

ANTHROPIC_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
CHAT_ID, RESPONSES_ID = 40, 64


def refusal_of(request: Request, *, strict_template: bool) -> str | None:
    """Return the message with which a provider refuses a request; None if it does not.

    Args:
        request: The request.
        strict_template: Whether the model's chat template is one of the strict ones.
    """
    faults = {"anthropic": anthropic, "openai-chat": chat, "openai-responses": responses}.get(
        request.protocol
    )
    found = next(faults(request.body), None) if faults else None
    if found is None and strict_template and request.protocol == "openai-chat":
        return template(request.body["messages"])
    return found


def anthropic(body: dict[str, Any]) -> Iterator[str]:
    """Yield what Anthropic refuses: blank blocks, and ids of another form."""
    system = body.get("system") or []
    yield from blanks("system", [{"type": "text", "text": system}] if isinstance(system, str) else system)
    for at, message in enumerate(body["messages"]):
        where, content = f"messages.{at}", message["content"]
        if not content:
            yield f"{where}: all messages must have non-empty content"
        yield from blanks(where, [{"type": "text", "text": content}] if isinstance(content, str) else content)


def blanks(where: str, blocks: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what Anthropic refuses of a list of blocks."""
    for at, block in enumerate(blocks):
        place = f"{where}.content.{at}"
        if block["type"] == "text" and not block["text"].strip():
            yield f"{place}: text content blocks must be non-empty"
        for key in ("id", "tool_use_id"):
            if block["type"] in ("tool_use", "tool_result") and not ANTHROPIC_ID.match(block.get(key, "x")):
                yield f"{place}.{block['type']}.{key}: String should match pattern '^[a-zA-Z0-9_-]+$'"
        inner = block.get("content")
        if block["type"] == "tool_result" and inner is not None:
            yield from blanks(place, [{"type": "text", "text": inner}] if isinstance(inner, str) else inner)


def chat(body: dict[str, Any]) -> Iterator[str]:
    """Yield what OpenAI's chat API refuses: long ids."""
    for at, message in enumerate(body["messages"]):
        ids = [call["id"] for call in message.get("tool_calls") or []] + [message.get("tool_call_id", "")]
        yield from (too_long(f"messages[{at}].tool_calls.id", CHAT_ID, id) for id in ids if len(id) > CHAT_ID)


def responses(body: dict[str, Any]) -> Iterator[str]:
    """Yield what OpenAI's Responses API refuses: long ids."""
    for at, item in enumerate(body["input"] if isinstance(body["input"], list) else []):
        if len(id := item.get("call_id", "")) > RESPONSES_ID:
            yield too_long(f"input[{at}].call_id", RESPONSES_ID, id)


def too_long(where: str, most: int, id: str) -> str:
    """Return OpenAI's message about a long text."""
    return (
        f"Invalid '{where}': string too long. Expected a string with maximum length {most}, "
        f"but got a string with length {len(id)} instead."
    )


def template(messages: list[dict[str, Any]]) -> str | None:
    """Return why a strict chat template refuses messages; None if it does not."""
    later = [message for message in messages[1:] if message["role"] in ("system", "developer")]
    if later:
        return "Jinja Exception: System message must be at the beginning."
    turns = [
        message["role"]
        for message in messages
        if message["role"] == "user" or (message["role"] == "assistant" and not message.get("tool_calls"))
    ]
    if any(role != ("user", "assistant")[at % 2] for at, role in enumerate(turns)):
        return (
            "Jinja Exception: After the optional system message, conversation roles must alternate "
            "user/assistant/user/assistant/..."
        )
    return None

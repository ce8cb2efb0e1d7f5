"""The messages, tools and sizes that providers refuse.

The texts are those of the providers, as their users report them; `docs/testing.md` has a source for each. A
server of open models uses the chat template of its model. Some templates take one system message, as the
first, and then messages of the user and the model by turns.
"""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import Any, Final, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from sojourn.testing.providers.request import Request, ToolOffer

__all__ = [
    "MAX_ANTHROPIC",
    "MAX_CALLS",
    "MAX_DESCRIPTION",
    "MAX_FUNCTIONS",
    "MAX_TEXT",
    "MAX_TOOLS",
    "anthropic",
    "google",
    "openai",
    "refusal_of",
    "size_refusal_of",
    "tool_refusal_of",
]

Block = dict[str, Any]

_ANTHROPIC_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_CHAT_ID, _RESPONSES_ID = 40, 64

MAX_TEXT: Final = 10_485_760
MAX_CALLS: Final = 128
MAX_ANTHROPIC: Final = 32 * 1024 * 1024


def size_refusal_of(request: Request, size: int) -> str | None:
    """Return the message with which a provider refuses this size, or None.

    Such a refusal has HTTP 413.
    """
    too_large = request.protocol == "anthropic" and size > MAX_ANTHROPIC
    return "Request exceeds the maximum size" if too_large else None


def refusal_of(request: Request, *, strict_template: bool) -> str | None:
    """Return the message with which a provider refuses the messages, or None.

    `strict_template` is for a model whose chat template is one of the strict ones.
    """
    rules = {"anthropic": _anthropic, "openai-chat": _chat, "openai-responses": _responses, "google": _google}
    found = next(rules[request.protocol](request.body), None)
    if found is None and strict_template and request.protocol == "openai-chat":
        return _template(request.body["messages"])
    return found


def _anthropic(body: dict[str, Any]) -> Iterator[str]:
    """Yield refusals of blank blocks, ids, and calls apart from their results."""
    yield from _blanks("system", _blocks(body.get("system") or []))
    messages: list[Block] = body["messages"]
    for at, message in enumerate(messages):
        where = f"messages.{at}"
        if not message["content"] and (message["role"], at) != ("assistant", len(messages) - 1):
            yield (
                f"{where}: all messages must have non-empty content except for the optional final assistant message"
            )
        yield from _blanks(where, _blocks(message["content"]))
    yield from _anthropic_order(messages)


def _blocks(content: str | list[Block]) -> list[Block]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _blanks(where: str, blocks: list[Block]) -> Iterator[str]:
    for at, block in enumerate(blocks):
        place = f"{where}.content.{at}"
        if block["type"] == "text" and not block["text"].strip():
            yield f"{place}: text content blocks must be non-empty"
        for key in ("id", "tool_use_id"):
            if block["type"] in ("tool_use", "tool_result") and not _ANTHROPIC_ID.match(block.get(key, "x")):
                yield f"{place}.{block['type']}.{key}: String should match pattern '^[a-zA-Z0-9_-]+$'"
        if block["type"] == "tool_result" and block.get("content") is not None:
            yield from _blanks(place, _blocks(block["content"]))


def _anthropic_order(messages: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the refusals of calls and results that are apart.

    The results of calls must begin the next message, and each result needs a call before it. Messages of
    the same role in a row are one message.
    """
    called: set[str] = set()
    turns: list[list[Block]] = [
        [block for message in turn for block in _blocks(message["content"])]
        for _, turn in groupby(messages, key=lambda message: message["role"])
    ]
    for at, blocks in enumerate([*turns, []]):
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        first = [block["tool_use_id"] for block in blocks[: len(results)] if block["type"] == "tool_result"]
        if unanswered := sorted(called - set(first)):
            yield (
                f"messages.{at - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(unanswered)}. Each `tool_use` block must have a corresponding `tool_result` block "
                "in the next message."
            )
        for id in results:
            if id not in called:
                yield (
                    f"messages.{at}.content.0: unexpected `tool_use_id` found in `tool_result` blocks: {id}. "
                    "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
                )
        called = {block["id"] for block in blocks if block["type"] == "tool_use"}


def _chat(body: dict[str, Any]) -> Iterator[str]:
    """Yield refusals of long ids and texts, and calls apart from their results."""
    messages: list[Block] = body["messages"]
    yield from _chat_sizes(messages)
    open_ids: list[str] = []
    end: Block = {"role": "end"}
    for at, message in enumerate([*messages, end]):
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_ids:
                yield (
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message "
                    "with 'tool_calls'."
                )
            else:
                open_ids.remove(message["tool_call_id"])
            continue
        if open_ids:
            yield (
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(open_ids)}"
                f" (before messages[{at}])"
            )
        calls: list[Block] = message.get("tool_calls") or []
        open_ids = [call["id"] for call in calls]


def _chat_sizes(messages: list[Block]) -> Iterator[str]:
    for at, message in enumerate(messages):
        made: list[Block] = message.get("tool_calls") or []
        for id in [*(call["id"] for call in made), message.get("tool_call_id", "")]:
            if len(id) > _CHAT_ID:
                yield _too_long(f"messages[{at}].tool_calls.id", _CHAT_ID, id)
        if len(made) > MAX_CALLS:
            yield (
                f"Invalid 'messages[{at}].tool_calls': array too long. Expected an array with maximum length "
                f"{MAX_CALLS}, but got an array with length {len(made)} instead."
            )
        if isinstance(text := message.get("content"), str) and len(text) > MAX_TEXT:
            yield _too_long(f"messages[{at}].content", MAX_TEXT, text)


def _responses(body: dict[str, Any]) -> Iterator[str]:
    """Yield refusals of long ids and texts, and items without their companions."""
    sent: str | list[Block] = body["input"]
    items = [] if isinstance(sent, str) else sent
    for at, item in enumerate(items):
        if len(id := item.get("call_id") or "") > _RESPONSES_ID:
            yield _too_long(f"input[{at}].call_id", _RESPONSES_ID, id)
        for key in ("content", "output"):
            if isinstance(text := item.get(key), str) and len(text) > MAX_TEXT:
                yield _too_long(f"input[{at}].{key}", MAX_TEXT, text)
    if body.get("previous_response_id") or body.get("conversation"):
        return  # the server has the items before these
    made = {item["call_id"] for item in items if item.get("type") == "function_call"}
    answered = {item["call_id"] for item in items if item.get("type") == "function_call_output"}
    yield from (f"No tool output found for function call {id}." for id in sorted(made - answered))
    yield from (
        f"No tool call found for function call output with call_id {id}." for id in sorted(answered - made)
    )
    for item, following in zip(items, [*items[1:], {"role": "user"}], strict=True):
        if item.get("type") == "reasoning" and not _is_of_model(following):
            yield f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item."


def _is_of_model(item: Block) -> bool:
    """Return whether an item is the model's message, call, or reasoning."""
    return item.get("role", "assistant") == "assistant" and item.get("type") != "function_call_output"


def _google(body: dict[str, Any]) -> Iterator[str]:
    """Yield refusals of contents without parts, and calls apart from their results."""
    contents: list[Block] = body.get("contents") or []
    before: Block = {"role": "model", "parts": []}
    end: Block = {"role": "end", "parts": [{}]}
    for at, content in enumerate([*contents, end]):
        if not content.get("parts"):
            yield f"* GenerateContentRequest.contents[{at}].parts: contents.parts must not be empty."
        called, answered = _count(before, "functionCall"), _count(content, "functionResponse")
        if called != answered:
            yield (
                "Please ensure that the number of function response parts is equal to the number of function call "
                "parts of the function call turn."
            )
        if _count(content, "functionCall") and before["role"] != "user":
            yield (
                "Please ensure that function call turn comes immediately after a user turn or after a function "
                "response turn."
            )
        before = {"role": "user", **content}


def _count(content: Block, kind: str) -> int:
    parts: list[Block] = content.get("parts") or []
    return sum(kind in part for part in parts)


def _too_long(where: str, most: int, text: str) -> str:
    return (
        f"Invalid '{where}': string too long. Expected a string with maximum length {most}, "
        f"but got a string with length {len(text)} instead."
    )


def _template(messages: list[dict[str, Any]]) -> str | None:
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


_ANTHROPIC_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}\Z")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_GOOGLE_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}\Z")
_COMBINATORS = ("oneOf", "anyOf", "allOf", "enum", "not")
_DATA = ("enum", "const", "default", "examples")

MAX_TOOLS, MAX_DESCRIPTION = 128, 1_024
MAX_FUNCTIONS = 512


def tool_refusal_of(request: Request) -> str | None:
    """Return the message with which a provider refuses the tools, or None."""
    faults = {"anthropic": anthropic, "google": google}.get(request.protocol, openai)
    return next(faults(request.tools), None)


def anthropic(tools: list[ToolOffer]) -> Iterator[str]:
    if _find_repeated(tools):
        yield "tools: Tool names must be unique."
    for at, tool in enumerate(tools):
        where = f"tools.{at}.custom"
        if not _NAME.match(tool.name):
            yield f"{where}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'"
        if "type" not in tool.schema:
            yield f"{where}.input_schema.type: Field required"
        elif tool.schema["type"] != "object":
            yield f"{where}.input_schema.type: Input should be 'object'"
        if {"oneOf", "allOf", "anyOf"} & tool.schema.keys():
            yield f"{where}.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"
        if not all(map(_ANTHROPIC_KEY.match, tool.schema.get("properties", {}))):
            yield f"{where}.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{{1,64}}$'"
        try:
            Draft202012Validator.check_schema(tool.schema)
        except SchemaError:
            yield (
                f"{where}.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12 "
                "(https://json-schema.org/draft/2020-12)."
            )


def google(tools: list[ToolOffer]) -> Iterator[str]:
    if len(tools) > MAX_FUNCTIONS:
        yield (
            "The GenerateContentRequest proto is invalid: * tools[0].function_declarations: [FIELD_INVALID] "
            f"At most {MAX_FUNCTIONS} function declarations can be specified."
        )
    yield from (f"Duplicate function declaration found: {name}" for name in _find_repeated(tools))
    for at, tool in enumerate(tools):
        where = f"GenerateContentRequest.tools[0].function_declarations[{at}]"
        if not _GOOGLE_NAME.match(tool.name):
            yield f"{where}.name: [FIELD_INVALID] Invalid function name. Must start with a letter or an underscore."
        if tool.schema.get("type") != "object":
            yield f"{where}.parameters: only allowed for OBJECT type"
        for path in _arrays(tool.schema, ()):
            yield f"{where}.parameters.{_google_path(path)}items: missing field."


def openai(tools: list[ToolOffer]) -> Iterator[str]:
    if len(tools) > MAX_TOOLS:
        yield (
            f"Invalid 'tools': array too long. Expected an array with maximum length {MAX_TOOLS}, "
            f"but got an array with length {len(tools)} instead."
        )
    for at, tool in enumerate(tools):
        if not _NAME.match(tool.name):
            yield (
                f"Invalid 'tools[{at}].function.name': string does not match pattern. "
                "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
            )
        if len(tool.description) > MAX_DESCRIPTION:
            yield (
                f"Invalid 'tools[{at}].function.description': string too long. Expected a string with maximum length "
                f"{MAX_DESCRIPTION}, but got a string with length {len(tool.description)} instead."
            )
        yield from (f"Invalid schema for function '{tool.name}': {fault}" for fault in _openai_schema(tool))


def _openai_schema(tool: ToolOffer) -> Iterator[str]:
    if tool.schema.get("type") != "object":
        yield f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{tool.schema.get('type')}\"'."
    if any(word in tool.schema for word in _COMBINATORS):
        yield "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level."
    yield from (f"In context={path}, array schema missing items." for path in _arrays(tool.schema, ()))
    if tool.strict:
        missing = tool.schema.get("properties", {}).keys() ^ set(tool.schema.get("required", []))
        if missing:
            yield "In context=(), 'required' is required to be supplied and to be an array including every key in properties."


def _find_repeated(tools: list[ToolOffer]) -> list[str]:
    return [name for name, times in Counter(tool.name for tool in tools).items() if times > 1]


def _google_path(path: tuple[str, ...]) -> str:
    return "".join(
        f"[{word}]." if before == "properties" else f"{word}." for before, word in pairwise(("", *path))
    ).replace(".[", "[")


def _arrays(schema: object, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if isinstance(schema, list):
        for each in cast("list[object]", schema):
            yield from _arrays(each, path)
    if not isinstance(schema, dict):
        return
    words = cast("dict[str, Any]", schema)
    kind = words.get("type")
    if "array" in (kind if isinstance(kind, list) else [kind]) and not isinstance(words.get("items"), dict):
        yield path
    for word, value in words.items():
        if word in ("properties", "$defs", "definitions") and isinstance(value, dict):
            for name, child in cast("dict[str, object]", value).items():
                yield from _arrays(child, (*path, word, name))
        elif word not in _DATA:
            yield from _arrays(value, (*path, word))

"""The tools that providers refuse, each with the whole request: schemas, keys, names, descriptions and their number.

The texts are those of the providers, as their users report them; `docs/testing.md` has a source for each.
"""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from sojourn.testing.providers.request import Request, ToolOffer

__all__ = [
    "MAX_DESCRIPTION",
    "MAX_FUNCTIONS",
    "MAX_TOOLS",
    "anthropic",
    "google",
    "openai",
    "tool_refusal_of",
]

_ANTHROPIC_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}\Z")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_GOOGLE_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}\Z")
_COMBINATORS = ("oneOf", "anyOf", "allOf", "enum", "not")
_DATA = ("enum", "const", "default", "examples")

MAX_TOOLS, MAX_DESCRIPTION = 128, 1_024
"""Most tools, and characters of a description, that OpenAI takes."""

MAX_FUNCTIONS = 512
"""Most tools that Google takes."""


def tool_refusal_of(request: Request) -> str | None:
    """Return the message with which a provider refuses the tools of a request; None if it does not."""
    faults = {"anthropic": anthropic, "google": google}.get(request.protocol, openai)
    return next(faults(request.tools), None)


def anthropic(tools: list[ToolOffer]) -> Iterator[str]:
    """Yield what Anthropic refuses."""
    if _repeated(tools):
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
    """Yield what Google refuses."""
    if len(tools) > MAX_FUNCTIONS:
        yield (
            "The GenerateContentRequest proto is invalid: * tools[0].function_declarations: [FIELD_INVALID] "
            f"At most {MAX_FUNCTIONS} function declarations can be specified."
        )
    yield from (f"Duplicate function declaration found: {name}" for name in _repeated(tools))
    for at, tool in enumerate(tools):
        where = f"GenerateContentRequest.tools[0].function_declarations[{at}]"
        if not _GOOGLE_NAME.match(tool.name):
            yield f"{where}.name: [FIELD_INVALID] Invalid function name. Must start with a letter or an underscore."
        if tool.schema.get("type") != "object":
            yield f"{where}.parameters: only allowed for OBJECT type"
        for path in _arrays(tool.schema, ()):
            yield f"{where}.parameters.{_google_path(path)}items: missing field."


def openai(tools: list[ToolOffer]) -> Iterator[str]:
    """Yield what OpenAI refuses."""
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
    """Yield what OpenAI refuses of a tool's schema."""
    if tool.schema.get("type") != "object":
        yield f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{tool.schema.get('type')}\"'."
    if any(word in tool.schema for word in _COMBINATORS):
        yield "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level."
    yield from (f"In context={path}, array schema missing items." for path in _arrays(tool.schema, ()))
    if tool.strict:
        missing = tool.schema.get("properties", {}).keys() ^ set(tool.schema.get("required", []))
        if missing:
            yield "In context=(), 'required' is required to be supplied and to be an array including every key in properties."


def _repeated(tools: list[ToolOffer]) -> list[str]:
    return [name for name, times in Counter(tool.name for tool in tools).items() if times > 1]


def _google_path(path: tuple[str, ...]) -> str:
    """Return a path as Google writes it: `properties[tags].`."""
    return "".join(
        f"[{word}]." if before == "properties" else f"{word}." for before, word in pairwise(("", *path))
    ).replace(".[", "[")


def _arrays(schema: object, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the paths of the arrays without `items`."""
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

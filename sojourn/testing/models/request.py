"""Request: what a model is asked, in the model layer's own JSON, as far as it is the same in every run that asks it.

pydantic-ai's JSON (`ModelMessagesTypeAdapter`) carries the conversation. It cannot carry a comparison that holds from
run to run, so this module replaces ids, UUIDs, points in time and long hexadecimal numbers by placeholders, and leaves
out signatures, provider ids and the bytes of files, for which a digest stands.
"""

import hashlib
import json
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher, unified_diff
from typing import Any, Final

from pydantic_ai.messages import (
    BinaryContent,
    FilePart,
    FileUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.tools import ToolDefinition
from temporalio import activity

from sojourn.models.provider_metadata import sound

__all__ = ["PARTS", "Json", "Request", "difference", "messages_json", "request_of"]

Json = dict[str, Any]
"""A JSON object."""

PARTS: Final = {
    "__all__": {"part_kind", "content", "tool_name", "args", "tool_call_id", "outcome", "citations"}
}
"""What is kept of the parts of a message: a list of what may stay, so that a new field of the library stays out."""

_MESSAGE: Final[Json] = {"kind": True, "instructions": True, "parts": PARTS}

_VOLATILE: Final = (
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE), "[uuid]"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"), "[time]"),
    (re.compile(r"\b[0-9a-f]{32,}\b"), "[hex]"),
)
"""A date alone is none of them: it says what is wanted more often than when something was."""

_SHORTEST_ID: Final = 6
"""Characters; a shorter id might be any word of a text."""

_MAX_DIFFERENCE: Final = 1_400
"""Characters: a failure of a run holds 2,000 in all."""

_WIDTH: Final = 100


@dataclass(frozen=True)
class Request:
    """What a model is asked; settings such as the temperature, and the model's name, are no part of it."""

    messages: list[Json]
    """The conversation, instructions included."""
    tools: list[Json]
    """What the model may call: name, description and JSON Schema."""

    @property
    def key(self) -> str:
        """A text that two requests share when they ask the same."""
        return json.dumps([self.messages, self.tools], sort_keys=True)


def request_of(
    messages: Sequence[ModelMessage],
    tools: Sequence[ToolDefinition],
    instructions: str = "",
    ignore: Sequence[str] = (),
) -> Request:
    """Return the request that these messages and tools are.

    Args:
        messages: The conversation, before a model's adapter prepares it.
        tools: What the model may call, the typed answer included.
        instructions: The request's own, which stand on the first message.
        ignore: Patterns of what else changes from run to run; each match becomes `[...]`.
    """
    stored = messages_json([_without_bytes(message) for message in messages], _MESSAGE)
    if instructions:
        stored[0]["instructions"] = instructions
    stored = [{key: message[key] for key in _MESSAGE if key in message} for message in stored]
    for message in stored:
        message["parts"] = [part for part in message["parts"] if not _is_empty(part)]
    ids = _ids(stored)
    for part in (part for message in stored for part in message["parts"] if "tool_call_id" in part):
        part["tool_call_id"] = ids.get(part["tool_call_id"], part["tool_call_id"])
    return Request(
        _mapped(stored, _steadied(ids, ignore)),
        [
            {
                "name": tool.name,
                "description": tool.description,
                "parameters_json_schema": tool.parameters_json_schema,
            }
            for tool in tools
        ],
    )


def messages_json(messages: Sequence[ModelMessage], kept: Json) -> list[Json]:
    """Return messages as JSON of the model layer that UTF-8 can hold, reduced to the fields that are kept."""
    dumped = ModelMessagesTypeAdapter.dump_python(
        list(messages), mode="json", include={"__all__": kept}, exclude_none=True
    )
    return _mapped(dumped, sound)


def difference(recorded: Sequence[Request], now: Request) -> str:
    """Return a unified diff against the recorded request that is the most alike; bounded and printable.

    Args:
        recorded: The requests of a cassette, in order.
        now: The request that none of them equals.
    """
    lines = list(_lines(now))
    then = [list(_lines(each)) for each in recorded]
    if not then:
        return "The file holds no exchanges."
    matcher = SequenceMatcher(b=lines, autojunk=False)

    def likeness(position: int) -> float:
        matcher.set_seq1(then[position])
        return matcher.ratio()

    closest = max(range(len(then)), key=likeness)
    title = f"asked then (exchange {closest + 1} of {len(then)})"
    text = "\n".join(unified_diff(then[closest], lines, title, "asked now", n=1, lineterm=""))
    return text if len(text) <= _MAX_DIFFERENCE else f"{text[:_MAX_DIFFERENCE]}\n... (more differs)"


def _without_bytes(message: ModelMessage) -> ModelMessage:
    """Return a message with digests in the place of bytes, and the address of a file that has one."""

    def light(content: UserContent) -> UserContent:
        if isinstance(content, FileUrl):
            return content.url
        if isinstance(content, BinaryContent) and content.data:
            digest = hashlib.sha256(content.data).hexdigest()[:16]
            return BinaryContent(b"", media_type=content.media_type, identifier=f"sha256:{digest}")
        return content

    parts: list[Any] = []
    for part in message.parts:
        if isinstance(part, UserPromptPart) and not isinstance(part.content, str):
            parts.append(replace(part, content=[light(each) for each in part.content]))
        elif isinstance(part, FilePart):
            parts.append(replace(part, content=light(part.content)))
        else:
            parts.append(part)
    return replace(message, parts=parts)


def _is_empty(part: Json) -> bool:
    """Whether a part holds nothing but a provider's signature, which a played answer has not."""
    return part["part_kind"] in ("text", "thinking") and not part["content"]


def _ids(stored: Sequence[Json]) -> dict[str, str]:
    """Return the ids of this run, its callers and the calls, each with its placeholder."""
    ids: dict[str, str] = {}
    if activity.in_activity():
        run = activity.info().workflow_id or ""
        while run:
            ids[run] = "[run]"
            run = run.rpartition("/")[0]
    calls = (part["tool_call_id"] for message in stored for part in message["parts"] if "args" in part)
    for number, id in enumerate(dict.fromkeys(calls), 1):
        ids.setdefault(id, f"[call {number}]")
    return ids


def _steadied(ids: dict[str, str], ignore: Sequence[str]) -> Callable[[str], str]:
    """Return what puts placeholders into a text for all that changes from run to run."""
    longest_first = sorted((id for id in ids if len(id) >= _SHORTEST_ID), key=len, reverse=True)
    known = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, longest_first)) or '(?!)'})(?![\w-])")
    patterns = [*((re.compile(pattern), "[...]") for pattern in ignore), *_VOLATILE]

    def steadied(text: str) -> str:
        text = known.sub(lambda found: ids[found[0]], text)
        for pattern, placeholder in patterns:
            text = pattern.sub(placeholder, text)
        return text

    return steadied


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """Return JSON with each of its texts changed; keys stay."""
    match value:
        case str():
            return change(value)
        case dict():
            return {key: _mapped(each, change) for key, each in value.items()}  # pyright: ignore[reportUnknownVariableType]
        case list():
            return [_mapped(each, change) for each in value]  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value


def _lines(request: Request) -> Iterator[str]:
    """Yield the lines of a request that a diff compares: printable, and short enough to see what changed in each."""
    asked = [*request.messages, *({"tool": tool.pop("name"), **tool} for tool in map(dict, request.tools))]
    for line in json.dumps(asked, ensure_ascii=False, indent=1).replace(r"\n", "\\n\n").splitlines():
        safe = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in line)
        yield from textwrap.wrap(safe, _WIDTH, drop_whitespace=False, subsequent_indent="  ") or [""]

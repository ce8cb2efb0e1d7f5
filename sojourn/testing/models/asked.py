"""What a request asks, as a file of exchanges holds it and a person reads it.

A flat list of what was said, oldest first, and the tools by name:

    [{"instructions": "You book visits."}, {"user": "Ana, on Monday"}, {"call": "clinic__visits__book",
     "arguments": {"patient": "Ana"}}, {"result": "failed: missing_fields ...", "of": "clinic__visits__book"}]

What changes from run to run is left out or replaced: ids of runs and calls, UUIDs, points in time, long hexadecimal
numbers. Settings such as the temperature, and the model's name, are no part of what is asked.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic_ai import messages as theirs
from pydantic_ai.models import ModelRequestParameters
from temporalio import activity

__all__ = ["Asked", "asked", "steadied"]

_VOLATILE: Final = (
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE), "[uuid]"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"), "[time]"),
    (re.compile(r"\b[0-9a-f]{32,}\b"), "[hex]"),
)
"""A date alone is none of them: it says what is wanted more often than when something was."""

_SHORTEST_ID = 6
"""Characters; a shorter id might be any word."""

Said = dict[str, Any]
"""One thing that was said: who or what it is, with its content."""


@dataclass(frozen=True)
class Asked:
    """What a model was asked."""

    said: list[Said]
    """All that it reads, in order."""
    tools: dict[str, Any]
    """What it may call, by name: description and JSON Schema."""

    @property
    def key(self) -> str:
        """The same for two requests that ask the same."""
        return json.dumps([self.said, self.tools], sort_keys=True)


def asked(
    messages: Sequence[theirs.ModelMessage], parameters: ModelRequestParameters, ignore: Sequence[str] = ()
) -> Asked:
    """What a request asks.

    Args:
        messages: As they are before a model's adapter prepares them.
        parameters: The tools, the typed answer and the instructions.
        ignore: Patterns of what else changes from run to run.
    """
    said = [{"instructions": part.content} for part in parameters.instruction_parts or ()]
    said += [each for message in messages for each in _said(message)]
    offered = [*parameters.function_tools, *parameters.output_tools]
    tools = {
        tool.name: {"description": tool.description, "parameters": tool.parameters_json_schema}
        for tool in offered
    }
    return Asked(steadied(_without_ids(said, _ids(messages)), ignore), tools)


def steadied(value: Any, ignore: Sequence[str] = ()) -> Any:
    """JSON in which each text has a placeholder for what changes from run to run; `[...]` for what is ignored."""
    patterns = [*((re.compile(pattern), "[...]") for pattern in ignore), *_VOLATILE]

    def replaced(text: str) -> str:
        for pattern, shown in patterns:
            text = pattern.sub(shown, text)
        return text

    return _mapped(value, replaced)


def _said(message: theirs.ModelMessage) -> Iterator[Said]:
    for part in message.parts:
        match part:
            case theirs.SystemPromptPart():
                yield {"system": part.content}
            case theirs.UserPromptPart():
                content = [part.content] if isinstance(part.content, str) else part.content
                yield from (_given(each) for each in content)
            case theirs.ToolReturnPart():
                failed = {} if part.outcome == "success" else {"outcome": part.outcome}
                result = part.content if isinstance(part.content, str) else part.model_response_str()
                yield {"result": result, "of": part.tool_name, **failed}
            case theirs.TextPart() | theirs.ThinkingPart():
                who = "assistant" if isinstance(part, theirs.TextPart) else "thinking"
                if part.content:
                    yield {who: part.content}
            case theirs.ToolCallPart():
                yield {"call": part.tool_name, "arguments": _arguments(part.args)}
            case _:
                yield {"part": part.part_kind}


def _given(content: theirs.UserContent) -> Said:
    match content:
        case str():
            return {"user": content}
        case theirs.BinaryContent():
            return {"file": content.media_type, "sha256": hashlib.sha256(content.data).hexdigest()[:16]}
        case theirs.FileUrl():
            return {"file": content.url}
        case _:
            return {"user": str(getattr(content, "content", content.kind))}


def _arguments(written: object) -> Any:
    """As JSON; as written where they are none."""
    if not isinstance(written, str):
        return written or {}
    try:
        return json.loads(written)
    except ValueError:
        return written


def _ids(messages: Sequence[theirs.ModelMessage]) -> dict[str, str]:
    """The ids of this run and its callers, and of the calls, with what stands for them."""
    ids: dict[str, str] = {}
    if activity.in_activity():
        run = activity.info().workflow_id or ""
        while run:
            ids[run] = "[run]"
            run = run.rpartition("/")[0]
    calls = (
        part.tool_call_id
        for message in messages
        for part in message.parts
        if isinstance(part, theirs.ToolCallPart)
    )
    for number, id in enumerate(dict.fromkeys(calls), 1):
        ids.setdefault(id, f"[call {number}]")
    return {id: shown for id, shown in ids.items() if len(id) >= _SHORTEST_ID}


def _without_ids(value: Any, ids: dict[str, str]) -> Any:
    if not ids:
        return value
    longest_first = "|".join(re.escape(id) for id in sorted(ids, key=len, reverse=True))
    pattern = re.compile(rf"(?<![\w-])(?:{longest_first})(?![\w-])")
    return _mapped(value, lambda text: pattern.sub(lambda found: ids[found[0]], text))


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """JSON with each of its texts changed; keys stay."""
    match value:
        case str():
            return change(value)
        case dict():
            return {key: _mapped(each, change) for key, each in value.items()}  # pyright: ignore[reportUnknownVariableType]
        case list():
            return [_mapped(each, change) for each in value]  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value

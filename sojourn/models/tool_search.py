"""Search for tools beyond those that a request can define.

The definitions are the front of a request, so a tool that was found is not added to them: the answer to
`search_tools` has its schema, and `call_tool` calls it. The cached front stays the same.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from pydantic_ai.messages import ModelRequest, ModelResponse, ModelResponsePart, ToolCallPart, ToolReturnPart
from pydantic_ai.tools import ToolDefinition

from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.payload.parse import Parsed, parse_arguments
from sojourn.models.names import CALL_TOOL, wire_name
from sojourn.models.projection import project
from sojourn.values.json_value import is_object
from sojourn.values.text import clip, count_noun

__all__ = ["MAX_SEARCHES", "SEARCH_TOOLS", "ToolSearch", "found_tools", "search_definitions"]

SEARCH_TOOLS = "search_tools"
MAX_SEARCHES = 5
MAX_FOUND = 8
MAX_ANSWER = 24_000
_MAX_SCHEMA = 8_000

_MAX_DESCRIPTION = 1_000

_MAX_TOOLSETS = 20

_MAX_QUERY = 500

_WORD = re.compile(r"[a-z]+|\d+")

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_IN_NAME, _IN_TITLE, _IN_TEXT = 6, 3, 1
MAX_NOTES = 10
_MAX_NOTED = 100
_NO_MORE = "No more searches in this step: call a tool that was found, or answer."


def search_definitions(deferred: Sequence[ToolSpec]) -> list[ToolDefinition]:
    return [
        ToolDefinition(
            name=CALL_TOOL,
            description=f"Call a tool that {SEARCH_TOOLS} has found. Other texts name the tool by its own name.",
            parameters_json_schema={
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "The tool's name."},
                    "arguments": {"type": "object", "description": "Its arguments, by its own schema."},
                },
                "required": ["name", "arguments"],
            },
            strict=False,
        ),
        ToolDefinition(
            name=SEARCH_TOOLS,
            description=clip(
                f"Find tools that are not listed here, by words of what they do: {len(deferred)} more, of "
                f"{_toolsets(deferred)}. Call what you find with {CALL_TOOL}.",
                1_000,
            ),
            parameters_json_schema={
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "Words such as `send mail`, or a tool's name."}
                },
                "required": ["query"],
                "additionalProperties": False,
            },
            strict=False,
        ),
    ]


class ToolSearch:
    def __init__(self, deferred: Sequence[ToolSpec]) -> None:
        self._deferred = deferred
        self._count = 0
        self.notes: list[str] = []

    def unwrap_searches(self, response: ModelResponse) -> ModelResponse:
        """Return a response with each search as a call of `search_tools`."""
        if not self._deferred or all(call.tool_name != CALL_TOOL for call in response.tool_calls):
            return response
        return replace(response, parts=[_search_of(part) or part for part in response.parts])

    def answer(self, response: ModelResponse, *, may_search: bool) -> list[ModelResponse | ModelRequest]:
        """Return a response whose calls are all searches, and their answers.

        After the last search the answer tells the model once that there are no more. Then its search is an
        unknown call.
        """
        calls = response.tool_calls
        if not self._deferred or not calls or any(call.tool_name != SEARCH_TOOLS for call in calls):
            return []
        self._count += 1
        if self._count > MAX_SEARCHES + 1 or not may_search:
            return []
        is_last = self._count > MAX_SEARCHES
        answers = [
            ToolReturnPart(
                SEARCH_TOOLS, _NO_MORE if is_last else self._answer(_query(call)), call.tool_call_id
            )
            for call in calls
        ]
        return [response, ModelRequest(answers)]

    def _answer(self, query: str) -> str:
        found, more = found_tools(query, self._deferred)
        if len(self.notes) < MAX_NOTES:
            listed = ", ".join(spec.id for spec in found) or "nothing"
            self.notes.append(f"the model searched for tools: {clip(query, _MAX_NOTED)!r} found {listed}")
        return _text_of(found, self._deferred, more)

    def without_searches(self, response: ModelResponse) -> ModelResponse:
        """Return a response without the searches beside other calls, which are made first."""
        names = {call.tool_name for call in response.tool_calls}
        if not self._deferred or SEARCH_TOOLS not in names or len(names) == 1:
            return response
        parts = [
            part
            for part in response.parts
            if not isinstance(part, ToolCallPart) or part.tool_name != SEARCH_TOOLS
        ]
        return replace(response, parts=parts)


def found_tools(query: str, deferred: Sequence[ToolSpec]) -> tuple[list[ToolSpec], int]:
    """Return the tools that fit a query best, and how many others fit."""
    words = set(_words(query[:_MAX_QUERY]))
    scored = [(-_score(spec, query, words), spec.id, spec) for spec in deferred]
    fitting = [spec for score, _, spec in sorted(scored, key=lambda each: each[:2]) if score]
    left, found = MAX_ANSWER, list[ToolSpec]()
    for spec in fitting[:MAX_FOUND]:
        left -= len(_describe(spec))
        if found and left < 0:
            break
        found.append(spec)
    return found, len(fitting) - len(found)


def _text_of(found: Sequence[ToolSpec], deferred: Sequence[ToolSpec], more: int) -> str:
    if not found:
        return f"No further tool fits. There are tools of {_toolsets(deferred)}; search with other words."
    rest = (
        [f"(And {count_noun(more, 'tool')} that fit less; search with other words for them.)"] if more else []
    )
    return "\n\n".join([*map(_describe, found), *rest])


def _score(spec: ToolSpec, query: str, words: set[str]) -> int:
    if query.strip() in (spec.id, wire_name(spec.id)):
        return 1_000
    name, title = set(_words(spec.id)), set(_words(spec.title))
    text = {*_words(spec.description[:_MAX_DESCRIPTION]), *_words(" ".join(_fields(spec)))}
    return sum(
        _IN_NAME * _holds(name, word) + _IN_TITLE * _holds(title, word) + _IN_TEXT * _holds(text, word)
        for word in words
    )


def _holds(words: set[str], word: str) -> bool:
    return word in words or f"{word}s" in words or (word.endswith("s") and word[:-1] in words)


def _words(text: str) -> Iterable[str]:
    return _WORD.findall(_HUMP.sub(" ", text).casefold())


def _fields(spec: ToolSpec) -> Iterable[str]:
    return project(spec.payload.json_schema).schema["properties"]


def _describe(spec: ToolSpec) -> str:
    projection = project(spec.payload.json_schema)
    schema = json.dumps(projection.schema, ensure_ascii=False, separators=(",", ":"))
    lines = [f"name: {wire_name(spec.id)}", clip(spec.description or spec.title, _MAX_DESCRIPTION)]
    lines += [projection.rules] if projection.rules else []
    return "\n".join([*lines, f"arguments, by JSON Schema: {clip(schema, _MAX_SCHEMA)}"])


def _toolsets(deferred: Sequence[ToolSpec]) -> str:
    counted = Counter(spec.id.rpartition(".")[0] for spec in deferred)
    listed = [f"{toolset} ({count})" for toolset, count in sorted(counted.items())]
    more = len(listed) - _MAX_TOOLSETS
    return ", ".join([*listed[:_MAX_TOOLSETS], f"and {more} more toolsets"] if more > 0 else listed)


def _search_of(part: ModelResponsePart) -> ToolCallPart | None:
    if not isinstance(part, ToolCallPart) or part.tool_name != CALL_TOOL:
        return None
    given = _object_of(part.args)
    if not is_object(given) or given.get("name") != SEARCH_TOOLS:
        return None
    query = _object_of(given.get("arguments", given))
    query = query.get("query") if is_object(query) else query
    return replace(part, tool_name=SEARCH_TOOLS, args={"query": query if isinstance(query, str) else ""})


def _query(call: ToolCallPart) -> str:
    arguments = _object_of(call.args)
    query = arguments.get("query") if is_object(arguments) else arguments
    return query if isinstance(query, str) else ""


def _object_of(arguments: Any) -> Any:
    """Return the object that a text of arguments holds.

    Anything else is returned as it is.
    """
    read = parse_arguments(arguments) if isinstance(arguments, str) else None
    return read.payload if isinstance(read, Parsed) else arguments

"""A file of requests to a model and its responses, equal in every run.

The conversation is stored as pydantic-ai dumps it (`ModelMessagesTypeAdapter`). So that requests of
different runs compare equal, ids, UUIDs, timestamps and long hexadecimal numbers become placeholders, the
bytes of files a digest, and what only the provider uses (response ids, signatures, addresses) is left out.

    {"format": 2, "model": "openai:gpt-5-mini", "exchanges": [
      {"tools": [{"name": "clinic__visits__book", "description": "...", "parameters_json_schema": {...}}],
       "messages": [{"kind": "request", "instructions": "You book visits.", "parts": [...]}],
       "response": {"kind": "response", "parts": [...]}},
      {"shared": 1, "messages": [...], "response": {...}}]}

A conversation grows, so an exchange leaves out the part that it shares with the exchange before: its first `shared`
messages, and its tools. The file of a run of 100 calls is hardly longer than its transcript.
"""

import hashlib
import json
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher, unified_diff
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError
from pydantic_ai.messages import (
    BinaryContent,
    FilePart,
    FileUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.tools import ToolDefinition
from temporalio import activity

from sojourn.models.provider_metadata import encodable
from sojourn.models.response import usage_of

__all__ = [
    "PARTS",
    "Json",
    "RecordedRequest",
    "difference",
    "messages_json",
    "read",
    "request_of",
    "response_json",
    "write",
]

Json = dict[str, Any]

PARTS: Final = {
    "__all__": {"part_kind", "content", "tool_name", "args", "tool_call_id", "outcome", "citations"}
}
"""The fields of message parts to record: an allow-list, so that a new field of the library is left out."""

_MESSAGE: Final[Json] = {"kind": True, "instructions": True, "parts": PARTS}

_VOLATILE: Final = (
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE), "[uuid]"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"), "[time]"),
    (re.compile(r"\b[0-9a-f]{32,}\b"), "[hex]"),
)
"""Text that changes from run to run, with its placeholder. A date alone stays: more often it is an argument."""

_SHORTEST_ID: Final = 6
_MAX_DIFFERENCE: Final = 1_400
_WIDTH: Final = 100


@dataclass(frozen=True)
class RecordedRequest:
    """A request to a model, without the model's name and settings."""

    messages: list[Json]
    tools: list[Json]

    @property
    def key(self) -> str:
        return json.dumps([self.messages, self.tools], sort_keys=True)


def request_of(
    messages: Sequence[ModelMessage],
    tools: Sequence[ToolDefinition],
    instructions: str = "",
    ignore: Sequence[str] = (),
) -> RecordedRequest:
    """Return messages, before an adapter prepares them, and tools as a request."""
    stored = messages_json([_without_bytes(message) for message in messages], _MESSAGE)
    if instructions:
        stored[0]["instructions"] = instructions
    stored = [{key: message[key] for key in _MESSAGE if key in message} for message in stored]
    for message in stored:
        message["parts"] = [part for part in message["parts"] if not _is_empty(part)]
    ids = _ids(stored)
    for part in (part for message in stored for part in message["parts"] if "tool_call_id" in part):
        part["tool_call_id"] = ids.get(part["tool_call_id"], part["tool_call_id"])
    return RecordedRequest(
        _map(stored, _replacer(ids, ignore)),
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
    """Return messages in pydantic-ai's JSON, with only the fields in `kept`."""
    dumped = ModelMessagesTypeAdapter.dump_python(
        list(messages), mode="json", include={"__all__": kept}, exclude_none=True
    )
    return _map(dumped, encodable)


def difference(recorded: Sequence[RecordedRequest], now: RecordedRequest) -> str:
    """Return a bounded, printable diff against the most similar recorded request."""
    lines = list(_lines(now))
    then = [list(_lines(each)) for each in recorded]
    if not then:
        return "The file holds no exchanges."
    matcher = SequenceMatcher(b=lines, autojunk=False)

    def similarity(position: int) -> float:
        matcher.set_seq1(then[position])
        return matcher.ratio()

    closest = max(range(len(then)), key=similarity)
    title = f"asked then (exchange {closest + 1} of {len(then)})"
    text = "\n".join(unified_diff(then[closest], lines, title, "asked now", n=1, lineterm=""))
    return text if len(text) <= _MAX_DIFFERENCE else f"{text[:_MAX_DIFFERENCE]}\n... (more differs)"


def _without_bytes(message: ModelMessage) -> ModelMessage:
    """Return a message with a URL or a digest in place of the bytes of its files."""

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
    """Return whether a part has nothing but a provider's signature."""
    return part["part_kind"] in ("text", "thinking") and not part["content"]


def _ids(stored: Sequence[Json]) -> dict[str, str]:
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


def _replacer(ids: dict[str, str], ignore: Sequence[str]) -> Callable[[str], str]:
    longest_first = sorted((id for id in ids if len(id) >= _SHORTEST_ID), key=len, reverse=True)
    known = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, longest_first)) or '(?!)'})(?![\w-])")
    patterns = [*((re.compile(pattern), "[...]") for pattern in ignore), *_VOLATILE]

    def replace_in(text: str) -> str:
        text = known.sub(lambda found: ids[found[0]], text)
        for pattern, placeholder in patterns:
            text = pattern.sub(placeholder, text)
        return text

    return replace_in


def _map(value: Any, change: Callable[[str], str]) -> Any:
    match value:
        case str():
            return change(value)
        case dict():
            return {key: _map(each, change) for key, each in value.items()}  # pyright: ignore[reportUnknownVariableType]
        case list():
            return [_map(each, change) for each in value]  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value


def _lines(request: RecordedRequest) -> Iterator[str]:
    """Yield the lines of a request for a diff, printable and short."""
    asked = [*request.messages, *({"tool": tool.pop("name"), **tool} for tool in map(dict, request.tools))]
    for line in json.dumps(asked, ensure_ascii=False, indent=1).replace(r"\n", "\\n\n").splitlines():
        safe = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in line)
        yield from textwrap.wrap(safe, _WIDTH, drop_whitespace=False, subsequent_indent="  ") or [""]


_RESPONSE: Final[Json] = {
    "kind": True,
    "parts": PARTS,
    "model_name": True,
    "finish_reason": True,
    "provider_details": {"refusal"},
    "usage": {"input_tokens", "output_tokens", "cache_read_tokens"},
}


class _Exchange(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    shared: NonNegativeInt = 0
    messages: list[ModelMessage]
    tools: list[ToolDefinition] | None = None
    response: ModelResponse


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    format: Literal[2]
    model: str
    exchanges: list[_Exchange]


def response_json(response: ModelResponse, first_call: int) -> Json:
    """Return a response as a cassette stores it, its calls numbered in the file."""
    [stored] = messages_json([response], _RESPONSE)
    if (cost := usage_of(response).cost) is not None:
        stored["usage"]["cost"] = str(cost)
    for number, call in enumerate(
        (part for part in stored["parts"] if part["part_kind"] == "tool-call"), first_call
    ):
        call["tool_call_id"] = f"call-{number}"
    return stored


def write(path: Path, model: str, exchanges: Sequence[tuple[RecordedRequest, Json]]) -> None:
    stored: list[Json] = []
    before = RecordedRequest([], [])
    for request, response in exchanges:
        pairs = zip(before.messages, request.messages, strict=False)
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        exchange: Json = {"shared": shared} if shared else {}
        if request.tools != before.tools:
            exchange["tools"] = request.tools
        stored.append({**exchange, "messages": request.messages[shared:], "response": response})
        before = request
    text = json.dumps({"format": 2, "model": model, "exchanges": stored}, ensure_ascii=False, indent=2)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.part")
    draft.write_text(f"{text}\n", encoding="utf-8")
    draft.replace(path)


def read(path: Path, ignore: Sequence[str] = ()) -> tuple[str, list[tuple[RecordedRequest, ModelResponse]]]:
    """Return the name of the model, and each request with its response, in order."""
    try:
        file = _File.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{path}: there is no recording; run the test once with SOJOURN_RECORD=1 and the provider's key"
        ) from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(step) for step in first["loc"]) or "the file"
        raise ValueError(_unfit(path, f"{where}: {first['msg']}")) from None
    exchanges: list[tuple[RecordedRequest, ModelResponse]] = []
    messages: list[ModelMessage] = []
    tools: list[ToolDefinition] = []
    for number, stored in enumerate(file.exchanges):
        if stored.shared > len(messages):
            raise ValueError(
                _unfit(path, f"exchanges.{number}.shared: the exchange before has fewer messages")
            )
        messages = [*messages[: stored.shared], *stored.messages]
        tools = tools if stored.tools is None else stored.tools
        exchanges.append((request_of(messages, tools, ignore=ignore), stored.response))
    return file.model, exchanges


def _unfit(path: Path, why: str) -> str:
    return f"{path} is not a file of exchanges: {why}. Correct it, or record it again with SOJOURN_RECORD=1"

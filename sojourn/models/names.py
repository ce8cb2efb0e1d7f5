"""Tool ids as names that model providers accept, and back.

Providers accept `[A-Za-z_][A-Za-z0-9_-]{0,63}`; a tool id has two dots, and may be longer. The name of a tool
must not depend on the other tools of a request, since prompt caches and old transcripts hold the name.

| tool id | name |
|---|---|
| `ops.devices.list` | `ops__devices__list` |
| an id whose `_` would be read as dots, or that is too long, or has `.` or `/` in the tool's part | its readable beginning, `_` and 10 hex digits of its SHA-256 |

A name that is not a tool id (`ask_user`, or a tool that a model invented) stays as it is if providers accept it.

A tool that the model finds by search is not defined in the request. It is called by `call_tool`, with its name and its
arguments, and in the transcript such a call is one of the tool itself.
"""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any, Final

from sojourn.contracts.ids import ToolId
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.payload.parse import Parsed, ParseFault
from sojourn.core.payload.reading import read_text
from sojourn.models.projection import Keys
from sojourn.values.json_value import is_object
from sojourn.values.numbers import dumps

__all__ = ["CALL_TOOL", "NO_KEYS", "TARGETS", "Arguments", "Names", "one_object", "wire_name"]

CALL_TOOL = "call_tool"
Arguments = dict[str, Any] | str
NO_KEYS: Final[Mapping[str, Keys]] = MappingProxyType({})

MAX_NAME = 64
MAX_UNKNOWN = 200
_LEGAL = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}\Z")

_DIGITS = 10

_DIGEST = re.compile(rf"_[0-9a-f]{{{_DIGITS}}}\Z")

_MAX_WRAPPED = 3
TARGETS = ("name", "tool", "tool_name")
_UNREADABLE = re.compile(r"[^A-Za-z0-9-]+")


@lru_cache(maxsize=1024)
def wire_name(name: str) -> str:
    """Return the name of a tool for providers, a different one for each tool."""
    tool = _id(name)
    if tool is not None:
        plain = name.replace(".", "__")
        return plain if _inverse(plain) == name else _hash(name)
    return name if _LEGAL.match(name) and not _DIGEST.search(name) and _inverse(name) is None else _hash(name)


class Names:
    """The names of a request's tools and of their fields.

    The tools are those that the request offers, and those in its transcript.
    """

    def __init__(
        self, names: Iterable[str], keys: Mapping[str, Keys] = NO_KEYS, deferred: Collection[str] = ()
    ) -> None:
        self._ids: dict[str, str] = {}
        for name in names:
            self._ids.setdefault(wire_name(name), name)
        self._keys = {id: each for id, each in keys.items() if each}
        self._deferred = frozenset(deferred)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Names)
            and self._ids == other._ids
            and self._keys == other._keys
            and self._deferred == other._deferred
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def has_deferred(self) -> bool:
        return bool(self._deferred)

    @staticmethod
    def name_of(id: str) -> str:
        return wire_name(id)

    def id_of(self, name: str) -> str:
        """Return the tool id that a model's name stands for, or else the name."""
        known = self._ids.get(name)
        if known is not None:
            return known
        return _inverse(name) or name[:MAX_UNKNOWN]

    def to_model(self, id: str, arguments: Arguments) -> tuple[str, Arguments]:
        """Return the name and the arguments of a transcript's call as the model made it."""
        if keys := self._keys.get(id):
            arguments = _change(arguments, keys.to_model)
        if id not in self._deferred:
            return self.name_of(id), arguments
        read = read_text(arguments) if isinstance(arguments, str) else None
        if isinstance(read, Parsed):
            return CALL_TOOL, dumps({"name": self.name_of(id), "arguments": read.payload})
        return CALL_TOOL, {"name": self.name_of(id), "arguments": arguments}

    def to_tool(self, name: str, arguments: Arguments) -> tuple[str, Arguments]:
        """Return a model's call as tool id and arguments, to be judged."""
        for _ in range(_MAX_WRAPPED if self._deferred else 0):
            if name == CALL_TOOL:
                name, arguments = self._unwrap(name, arguments)
        id = self.id_of(name)
        keys = self._keys.get(id)
        return id, _change(arguments, lambda given: one_object(keys.to_tool(given))) if keys else arguments

    def in_result(self, result: ToolResult) -> ToolResult:
        """Return a result whose error and hint have the model's names of fields."""
        keys = self._keys.get(result.name)
        if keys is None or result.error is None:
            return result
        error = result.error.model_copy(update={"message": keys.in_text(result.error.message)})
        hint = result.retry_hint and keys.in_hint(result.retry_hint)
        return result.model_copy(update={"error": error, "retry_hint": hint})

    def replace_ids(self, text: str) -> str:
        """Return a text for the model, with names in place of the ids of known tools."""
        return self._id_pattern.sub(lambda found: wire_name(found[0]), text) if self._ids else text

    def _unwrap(self, name: str, arguments: Arguments) -> tuple[str, Arguments]:
        """Return the call inside a whole call of `call_tool`."""
        if isinstance(arguments, str):
            read = read_text(arguments)
            if isinstance(read, ParseFault):
                return name, arguments
            given = dict(read.payload)
        else:
            given = dict(arguments)
        field = next((each for each in TARGETS if each in given), "")
        tool = given.get(field)
        if not isinstance(tool, str) or (field != "name" and self._ids.get(tool) is None):
            return name, arguments
        del given[field]
        if not given:  # the arguments are absent, not empty
            return name, arguments
        inner = _inner(given)
        is_text = isinstance(arguments, str) and not isinstance(inner, str)
        return tool, dumps(inner) if is_text else inner

    @cached_property
    def _id_pattern(self) -> re.Pattern[str]:
        ids = sorted(self._ids.values(), key=len, reverse=True)
        return re.compile(rf"(?<![\w./-])(?:{'|'.join(map(re.escape, ids))})(?![\w/-]|\.\w)")


def one_object(pairs: Iterable[tuple[str, Any]]) -> Arguments:
    """Return an object from pairs of name and value.

    If a name has two values, return a text that the boundary refuses: a person might approve one, and the
    tool run with the other.
    """
    made: dict[str, str] = {}
    read, is_one = dict[str, Any](), True
    written = [(name, dumps(value), value) for name, value in pairs]
    for name, text, value in written:
        is_one = is_one and made.setdefault(name, text) == text
        read[name] = value
    return read if is_one else f"{{{', '.join(f'{json.dumps(name)}: {text}' for name, text, _ in written)}}}"


def _inner(given: dict[str, Any]) -> Arguments:
    inner: Any = given.pop("arguments", None)
    if isinstance(inner, str) and given:
        read = read_text(inner)
        inner = inner if isinstance(read, ParseFault) else read.payload
        if isinstance(inner, str) and not inner.lstrip().startswith("{"):
            return {"arguments": inner, **given}
    if isinstance(inner, str):
        return inner
    if inner is None or is_object(inner):
        return one_object([*(inner or {}).items(), *given.items()])
    return {"arguments": inner, **given}


def _change(arguments: Arguments, change: Callable[[dict[str, Any]], Arguments]) -> Arguments:
    """Return arguments with other keys, unless they are not one JSON object."""
    if not isinstance(arguments, str):
        return change(arguments)
    read = read_text(arguments)
    if isinstance(read, ParseFault):
        return arguments
    changed = change(read.payload)
    if isinstance(changed, str):
        return changed
    return arguments if changed == read.payload else dumps(changed)


def _inverse(name: str) -> str | None:
    """Return the one tool id whose dots were replaced by `__`, or None."""
    parts = name.split("__")
    if len(parts) != 3 or len(name) > MAX_NAME:
        return None
    service, toolset, tool = parts
    if service.endswith("_") or toolset.startswith("_") or toolset.endswith("_") or tool.startswith("_"):
        return None
    return _id(f"{service}.{toolset}.{tool}") if _LEGAL.match(name) else None


def _id(name: str) -> str | None:
    try:
        return ToolId(name)
    except ValueError:
        return None


def _hash(name: str) -> str:
    """Return a name with a digest, and without `__`, so that no plain name equals it."""
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:_DIGITS]
    readable = _UNREADABLE.sub("_", name[:MAX_UNKNOWN]).lstrip("_-0123456789")
    return f"{readable[: MAX_NAME - _DIGITS - 1].rstrip('_') or 'tool'}_{digest}"

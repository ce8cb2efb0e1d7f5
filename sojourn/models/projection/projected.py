"""A tool's schema for models, made once, within the limits of providers.

Anthropic refuses a field named `$top`, `filter[id]` or with more than 64 characters. The model knows such a
field by another name, in hints too, and a call gets the field's own again before it is judged.
"""

import hashlib
import json
import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from sojourn.contracts.tool_error import FieldIssue, RetryHint
from sojourn.core.schema.drafts import in_2020_12
from sojourn.core.schema.issues import ONLY_ONE
from sojourn.models.projection.root import merge_root
from sojourn.models.projection.subschemas import Subschemas
from sojourn.values.json_value import Schema, is_object, to_pointer, to_tokens
from sojourn.values.text import MAX_NAME, plain

__all__ = ["NO_KEYS", "Keys", "Projection", "ProviderLimits", "limits_of", "project"]

_LEGAL: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")

_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9_.-]+")

_READABLE: Final = 48

_DIGITS: Final = 8


class Keys:
    """The model's names of a tool's fields, for those whose own name is refused."""

    def __init__(self, fields: Iterable[str] = ()) -> None:
        known = list(fields)
        taken = {name for name in known if _LEGAL.match(name)}
        self._sent: dict[str, str] = {}
        for name in known:
            if not _LEGAL.match(name):
                self._sent[name] = _new_name(name, taken)
                taken.add(self._sent[name])
        self._own = {sent: name for name, sent in self._sent.items()}

    def __bool__(self) -> bool:
        return bool(self._sent)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keys) and self._sent == other._sent

    __hash__ = None  # type: ignore[assignment]

    def name_of(self, name: str) -> str:
        return self._sent.get(name, name)

    def to_model(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return {self._sent.get(name, name): value for name, value in arguments.items()}

    def to_tool(self, arguments: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """Return arguments with the tool's names, and fields given under both."""
        return [(self._own.get(name, name), value) for name, value in arguments.items()]

    def in_text(self, text: str) -> str:
        """Return a text with the model's names of fields that are quoted in backticks."""
        return self._pattern.sub(lambda found: f"`{self._by_text[found[1]]}", text) if self._by_text else text

    def in_hint(self, hint: RetryHint) -> RetryHint:
        if not self._sent:
            return hint
        return hint.model_copy(
            update={
                "message": hint.message and self.in_text(hint.message),
                "missing_fields": [self.name_of(name) for name in hint.missing_fields],
                "example_input": self._object(hint.example_input),
                "template": self._object(hint.template),
                "prior_input": self._object(hint.prior_input),
                "issues": [self._issue(issue) for issue in hint.issues],
            }
        )

    def _object(self, value: Any) -> Any:
        return self.to_model(value) if is_object(value) else value

    def _issue(self, issue: FieldIssue) -> FieldIssue:
        first, *rest = to_tokens(issue.field) or ("",)
        if not issue.field or first not in self._sent:
            return issue
        changes: dict[str, Any] = {"field": to_pointer([self._sent[first], *rest])}
        if issue.constraint == ONLY_ONE and issue.expected_type:
            changes["expected_type"] = self.in_text(issue.expected_type)
        return issue.model_copy(update=changes)

    @cached_property
    def _by_text(self) -> dict[str, str]:
        shown = {plain(name, MAX_NAME): sent for name, sent in self._sent.items()}
        return {name: sent for name, sent in shown.items() if name}

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        names = sorted(self._by_text, key=len, reverse=True)
        return re.compile(rf"`({'|'.join(map(re.escape, names))})(?=[`.\[])")


NO_KEYS: Final = Keys()


def _new_name(name: str, taken: set[str]) -> str:
    """Return the legal characters of a name, if need be with digits of a hash."""
    readable = _ILLEGAL.sub("_", name[: _READABLE * 4]).strip("_.-")
    if readable and len(name) <= _READABLE and name.isascii() and readable not in taken:
        return readable
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:_DIGITS]
    return f"{readable[:_READABLE] or 'field'}_{digest}"


@dataclass(frozen=True, slots=True)
class ProviderLimits:
    tools: int = 128
    """Most tools of a request, Sojourn's own included; beyond it every model chooses badly."""
    description: int = 1_024
    """Longest description of a tool, in characters."""
    definitions: int = 300_000
    """Most characters of all definitions, about 100,000 tokens, to leave room for a conversation."""


_SPACIOUS: Final = ProviderLimits(description=10_000)

_LIMITS: Final = {
    "anthropic": _SPACIOUS,
    "bedrock": _SPACIOUS,
    "google": _SPACIOUS,
    "google-cloud": _SPACIOUS,
}
"""The limits by pydantic-ai's name of the provider; the others speak OpenAI's API, and have OpenAI's limits."""


def limits_of(providers: Iterable[str]) -> ProviderLimits:
    each = [_LIMITS.get(provider.removeprefix("gateway/"), ProviderLimits()) for provider in providers]
    return ProviderLimits(
        tools=min((limits.tools for limits in each), default=128),
        description=min((limits.description for limits in each), default=1_024),
        definitions=min((limits.definitions for limits in each), default=300_000),
    )


_MAX_CACHED: Final = 4_000


@dataclass(frozen=True)
class Projection:
    schema: Schema
    rules: str
    """Sentences for rules that the schema cannot express."""
    keys: Keys
    size: int


_cached: OrderedDict[int, tuple[Schema, Projection]] = OrderedDict()
"""Projections by `id` of the schema, which is stored too so that its `id` stays unique."""


def project(schema: Schema) -> Projection:
    """Return the projection of a schema in any draft, cached."""
    key = id(schema)
    if key not in _cached:
        _cached[key] = schema, _project(schema)
        if len(_cached) > _MAX_CACHED:
            _cached.popitem(last=False)
    return _cached[key][1]


def _project(schema: Schema) -> Projection:
    given = in_2020_12(schema)
    root, rules = merge_root(given)
    subschemas = Subschemas(given)
    made = subschemas.copy(root)
    keys = Keys(made["properties"])
    made["properties"] = {
        keys.name_of(name): _describe(child, name) if keys.name_of(name) != name else child
        for name, child in made["properties"].items()
    }
    if "required" in made:
        made["required"] = [keys.name_of(name) for name in made["required"]]
    if definitions := subschemas.definitions():
        made["$defs"] = definitions
    return Projection(made, keys.in_text(rules), keys, len(json.dumps(made, default=str)))


def _describe(child: Schema, name: str) -> Schema:
    own = f"`{plain(name, MAX_NAME)}`" if plain(name, MAX_NAME) else "the field without a name"
    text: Any = child.get("description")
    return {**child, "description": f"{own}: {text}" if text else own}

"""A tool's schema for models, made once, within the limits of providers."""

import json
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from sojourn.core.schema.drafts import in_2020_12
from sojourn.models.projection.keys import Keys
from sojourn.models.projection.root import merged_root
from sojourn.models.projection.subschemas import Subschemas
from sojourn.values.json_value import Schema
from sojourn.values.text import MAX_NAME, plain

__all__ = ["Projection", "ProviderLimits", "limits_of", "project"]


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
    """Sentences for what the schema cannot express."""
    keys: Keys
    size: int


_cached: OrderedDict[int, tuple[Schema, Projection]] = OrderedDict()
"""Projections by `id` of the schema, which is stored too so that its `id` stays unique."""


def project(schema: Schema) -> Projection:
    """Return the projection of a schema in any draft, cached."""
    key = id(schema)
    if key not in _cached:
        _cached[key] = schema, _projected(schema)
        if len(_cached) > _MAX_CACHED:
            _cached.popitem(last=False)
    return _cached[key][1]


def _projected(schema: Schema) -> Projection:
    given = in_2020_12(schema)
    root, rules = merged_root(given)
    subschemas = Subschemas(given)
    made = subschemas.copy(root)
    keys = Keys(made["properties"])
    made["properties"] = {
        keys.sent(name): _described(child, name) if keys.sent(name) != name else child
        for name, child in made["properties"].items()
    }
    if "required" in made:
        made["required"] = [keys.sent(name) for name in made["required"]]
    if definitions := subschemas.definitions():
        made["$defs"] = definitions
    return Projection(made, keys.in_text(rules), keys, len(json.dumps(made, default=str)))


def _described(child: Schema, name: str) -> Schema:
    own = f"`{plain(name, MAX_NAME)}`" if plain(name, MAX_NAME) else "the field without a name"
    text: Any = child.get("description")
    return {**child, "description": f"{own}: {text}" if text else own}

"""`unevaluatedProperties`: the names that no part of a composed schema speaks of.

Plain jsonschema runs the patterns of `patternProperties` on Python's `re` here, where a
hostile one never ends; it also counts the fields of a union that nobody fits as unknown,
on top of the union's own fault.
"""

from collections.abc import Iterator
from typing import Any

from jsonschema.exceptions import ValidationError

from sojourn.core.formats import matches
from sojourn.core.json_value import is_object
from sojourn.core.pointer import Schema, resolve
from sojourn.core.work import WORK

__all__ = ["unevaluated_properties"]


def unevaluated_properties(
    validator: Any, rule: Any, instance: Any, schema: Schema
) -> Iterator[ValidationError]:
    """A fault for each name nobody speaks of, with the name in its path."""
    if is_object(instance) and "additionalProperties" not in schema:
        beside = {word: value for word, value in schema.items() if word != "unevaluatedProperties"}
        known = _evaluated(validator, instance, beside)
        for name, value in instance.items():
            if name not in known and not validator.evolve(schema=rule).is_valid(value):
                yield ValidationError("unknown", path=[name])


def _evaluated(validator: Any, instance: dict[str, Any], schema: Any) -> set[str]:
    """The names that a schema speaks of; those of a union nobody fits count, since that is a fault of its own."""
    if not is_object(schema):
        return set()
    spoken = schema
    if "additionalProperties" in spoken or "unevaluatedProperties" in spoken:
        return set(instance)
    found = instance.keys() & spoken.get("properties", {}).keys()
    found |= {
        name for name in instance for pattern in spoken.get("patternProperties", ()) if matches(pattern, name)
    }
    return found.union(
        *(_evaluated(validator, instance, part) for part in _applied(validator, instance, spoken))
    )


def _applied(validator: Any, instance: dict[str, Any], schema: Schema) -> Iterator[Any]:
    if "$ref" in schema:
        yield resolve(WORK.get().root, schema["$ref"])
    yield from schema.get("allOf", ())
    for word in ("anyOf", "oneOf"):
        branches = schema.get(word, ())
        yield from [each for each in branches if validator.evolve(schema=each).is_valid(instance)] or branches
    yield from (part for name, part in schema.get("dependentSchemas", {}).items() if name in instance)
    if "if" in schema:
        holds = validator.evolve(schema=schema["if"]).is_valid(instance)
        yield from (schema["if"], schema.get("then")) if holds else (schema.get("else"),)

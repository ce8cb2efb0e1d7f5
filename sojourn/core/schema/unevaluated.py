"""`unevaluatedProperties` and `unevaluatedItems`: fields and items that no subschema evaluates.

Plain jsonschema runs the patterns of `patternProperties` on Python's `re` here, where a
hostile one never ends; where no branch of a union fits, it also reports the union's fields as unknown,
beside the union's own error. For items it searches a list of indexes for each item.
"""

from collections.abc import Iterator
from typing import Any

from jsonschema.exceptions import ValidationError

from sojourn.core.schema.budget import BUDGET
from sojourn.core.schema.formats import matches
from sojourn.core.values.json_value import is_array, is_object
from sojourn.core.values.pointer import Schema, resolve

__all__ = ["unevaluated_items", "unevaluated_properties"]


def unevaluated_properties(
    validator: Any, rule: Any, instance: Any, schema: Schema
) -> Iterator[ValidationError]:
    """An error for each unevaluated name, with the name in its path."""
    if is_object(instance) and "additionalProperties" not in schema:
        beside = {word: value for word, value in schema.items() if word != "unevaluatedProperties"}
        known = _evaluated(validator, instance, beside)
        for name, value in instance.items():
            if name not in known and not validator.evolve(schema=rule).is_valid(value):
                yield ValidationError("unknown", path=[name])


def _evaluated(validator: Any, instance: dict[str, Any], schema: Any) -> set[str]:
    """The names that a schema evaluates; where no branch of a union fits, which is an error of its own, all its names count."""
    if not is_object(schema):
        return set()
    spoken = schema
    patterns = spoken.get("patternProperties", ())
    BUDGET.get().spend(1 + len(instance) // 4 + len(patterns) * len(instance))
    if "additionalProperties" in spoken or "unevaluatedProperties" in spoken:
        return set(instance)
    found = instance.keys() & spoken.get("properties", {}).keys()
    found |= {name for name in instance for pattern in patterns if matches(pattern, name)}
    return found.union(
        *(_evaluated(validator, instance, part) for part in _applied(validator, instance, spoken))
    )


def unevaluated_items(validator: Any, rule: Any, instance: Any, schema: Schema) -> Iterator[ValidationError]:
    """One error when some item is unevaluated."""
    if not is_array(instance) or "items" in schema:
        return
    beside = {word: value for word, value in schema.items() if word != "unevaluatedItems"}
    known = _evaluated_places(validator, instance, beside)
    inner = validator.evolve(schema=rule)
    if any(place not in known and not inner.is_valid(item) for place, item in enumerate(instance)):
        yield ValidationError("unevaluated items")


def _evaluated_places(validator: Any, instance: list[Any], schema: Any) -> set[int]:
    """The indexes of the items that a schema evaluates."""
    if not is_object(schema):
        return set()
    BUDGET.get().spend(1 + len(instance) // 4)
    if "items" in schema or "unevaluatedItems" in schema:
        return set(range(len(instance)))
    found = set(range(len(schema.get("prefixItems", ()))))
    if "contains" in schema:
        inner = validator.evolve(schema=schema["contains"])
        found |= {place for place, item in enumerate(instance) if inner.is_valid(item)}
    return found.union(
        *(_evaluated_places(validator, instance, part) for part in _applied(validator, instance, schema))
    )


def _applied(validator: Any, instance: Any, schema: Schema) -> Iterator[Any]:
    if "$ref" in schema:
        yield resolve(BUDGET.get().root, schema["$ref"])
    yield from schema.get("allOf", ())
    for word in ("anyOf", "oneOf"):
        branches = schema.get(word, ())
        yield from [each for each in branches if validator.evolve(schema=each).is_valid(instance)] or branches
    if is_object(instance):
        yield from (part for name, part in schema.get("dependentSchemas", {}).items() if name in instance)
    if "if" in schema:
        holds = validator.evolve(schema=schema["if"]).is_valid(instance)
        yield from (schema["if"], schema.get("then")) if holds else (schema.get("else"),)

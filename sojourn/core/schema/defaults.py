"""Fill in the defaults that a schema states.

A payload that spells out its defaults then equals one that does not.
"""

from copy import deepcopy
from typing import Any

from sojourn.core.schema.validate import Validator
from sojourn.values.json_fault import MAX_DEPTH
from sojourn.values.json_value import Schema, is_array, is_object, resolve

__all__ = ["with_defaults", "without_defaults"]

MAX_VALUES = 5_000
"""Most values to check.

A server's schema may state defaults that have defaults of their own, without end.
"""


BRANCH = 20
"""The cost, in values, of checking whether a value fits a branch of a union."""


class _TooManyError(Exception):
    """The defaults of a payload are too many, or too deep, to fill in."""


def with_defaults(validator: Validator, payload: dict[str, Any]) -> dict[str, Any]:
    """Return the payload with each absent field that has a default, at every level.

    If there are too many, return the payload unchanged.
    """
    try:
        return _Filling(validator).fill(validator.schema, payload, 0)
    except _TooManyError:
        return payload


def without_defaults(validator: Validator, payload: dict[str, Any]) -> dict[str, Any]:
    """Return the payload without top-level fields that equal their default."""
    bare = with_defaults(validator, {})
    return {
        name: value
        for name, value in payload.items()
        if name not in bare or not _equal(with_defaults(validator, {name: value})[name], bare[name])
    }


def _equal(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


class _Filling:
    def __init__(self, validator: Validator) -> None:
        self._validator = validator
        self._left = MAX_VALUES

    def fill(self, schema: Any, value: Any, depth: int) -> Any:
        self._count(1 if depth <= MAX_DEPTH else self._left + 1)
        if is_object(value):
            return self._object(schema, value, depth)
        if is_array(value):
            return self._array(schema, value, depth)
        return value

    def _object(self, schema: Any, value: dict[str, Any], depth: int) -> dict[str, Any]:
        filled = dict(value)
        for part in self._parts(schema, value, 0):
            properties: Schema = part.get("properties") or {}
            for name, field in properties.items():
                if name not in filled and is_object(field) and "default" in field:
                    filled[name] = deepcopy(field["default"])
                if name in filled:
                    filled[name] = self.fill(field, filled[name], depth + 1)
            if is_object(others := part.get("additionalProperties")):
                for name in filled.keys() - properties.keys():
                    filled[name] = self.fill(others, filled[name], depth + 1)
        return filled

    def _array(self, schema: Any, value: list[Any], depth: int) -> list[Any]:
        filled = list(value)
        for part in self._parts(schema, value, 0):
            first: list[Any] = part.get("prefixItems") or []
            for index, each in enumerate(filled):
                kind = first[index] if index < len(first) else part.get("items")
                filled[index] = self.fill(kind, each, depth + 1)
        return filled

    def _parts(self, schema: Any, value: Any, depth: int) -> list[Schema]:
        # For a union, that is the first branch that the value fits.
        if not is_object(schema) or depth > MAX_DEPTH:
            return []
        self._count(1)
        parts = [schema]
        if isinstance(reference := schema.get("$ref"), str):
            parts += self._parts(resolve(self._validator.schema, reference), value, depth + 1)
        for each in schema.get("allOf") or ():
            parts += self._parts(each, value, depth + 1)
        for word in ("anyOf", "oneOf"):
            branches = (
                each for each in schema.get(word) or () if is_object(each) and self._fits(each, value)
            )
            parts += self._parts(next(branches, None), value, depth + 1)
        return parts

    def _fits(self, schema: Schema, value: Any) -> bool:
        self._count(BRANCH)
        return self._validator.is_valid(value, schema=schema)

    def _count(self, values: int) -> None:
        self._left -= values
        if self._left < 0:
            raise _TooManyError

"""A quick yes: jsonschema-rs says of most good payloads that they are good, some fifty times as fast.

Only its yes counts. Whatever it refuses or cannot judge is judged by `sojourn.core.dialect`, which also
finds the faults. The two agree: formats and patterns are ours here too, and a schema with a word that the two read differently, or with more work in it than its size shows (a recursive
reference, definitions that double at each step), gets no quick yes at all.
"""

from collections.abc import Callable
from typing import Any

import jsonschema_rs

from sojourn.core.formats import FORMAT_EXAMPLES, FORMATS, matches
from sojourn.core.json_value import is_object
from sojourn.core.pointer import Schema, children, resolve

__all__ = ["quick_yes"]

_MAX_EXPANDED = 5_000
"""Subschemas, each counted as often as it is referred to."""

_EXACT = 2**53
"""Whole numbers up to here have floats of their own."""

_NUMBERS = ("const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")

_READ_DIFFERENTLY = (
    "multipleOf",
    "patternProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
    "$id",
    "$anchor",
)


class _Pattern:
    """The keyword `pattern` as we read it: RE2, and nothing asked where RE2 cannot run it."""

    def __init__(self, parent_schema: dict[str, Any], value: Any, schema_path: list[str | int]) -> None:
        del parent_schema, schema_path
        self._pattern = value

    def validate(self, instance: Any) -> None:
        if isinstance(instance, str) and not matches(self._pattern, instance):
            raise ValueError


def quick_yes(schema: Schema) -> Callable[[Any], bool] | None:
    """Says whether a value surely fits the schema; None where it could not say so cheaply.

    The value is one without integers of more than 4,300 digits, as `sojourn.core.misfit` sees to.
    """
    if _expanded(schema) is None:
        return None
    try:
        validator = jsonschema_rs.Draft202012Validator(
            schema,
            formats=_FORMATS,
            validate_formats=True,
            keywords={"pattern": _Pattern},
            offline=True,
        )
    except (ValueError, jsonschema_rs.ReferencingError, RecursionError):
        return None

    def says_yes(value: Any) -> bool:
        try:
            return validator.is_valid(value)
        except (ValueError, TypeError, OverflowError, RecursionError):
            return False

    return says_yes


def _holds_large_numbers(schema: Schema) -> bool:
    """Whether a number is so large that whole and floating ones of it differ in the two libraries."""
    given = [schema.get(word) for word in _NUMBERS] + list(schema.get("enum") or ())
    return any(isinstance(number, (int, float)) and abs(number) > _EXACT for number in given)


def _format(name: str) -> Callable[[str], bool]:
    return lambda text: FORMATS.conforms(text, name)


def _annotation(text: str) -> bool:
    del text
    return True


_FORMATS: dict[str, Callable[[str], bool]] = {
    **dict.fromkeys(("iri", "iri-reference", "regex", "uri-template"), _annotation),
    **{name: _format(name) for name in FORMAT_EXAMPLES},
}
"""Ours, and that the others it knows say nothing: inside a `not`, stricter would be more lenient."""


def _expanded(root: Schema) -> int | None:
    """How many subschemas one value may meet; None when there is no end to it, or a word we read differently."""
    sizes: dict[int, int] = {}

    def visit(schema: Schema, above: frozenset[int]) -> int | None:
        key = id(schema)
        if key in above or any(word in schema for word in _READ_DIFFERENTLY) or _holds_large_numbers(schema):
            return None
        if key in sizes:
            return sizes[key]
        inner = [child for (word, *_), child in children(schema) if word not in ("$defs", "definitions")]
        reference = schema.get("$ref")
        if isinstance(reference, str):
            target = resolve(root, reference)
            if not is_object(target):
                return None
            inner.append(target)
        total = 1
        for child in inner:
            size = visit(child, above | {key})
            if size is None or total + size > _MAX_EXPANDED:
                return None
            total += size
        sizes[key] = total
        return total

    return visit(root, frozenset())

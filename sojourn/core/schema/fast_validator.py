"""Accept most valid payloads fifty times as fast, with jsonschema-rs.

Only acceptance counts. A value that the fast check refuses or cannot judge is validated by the dialect,
which also finds the issues. The two agree: the fast check uses the same formats and patterns. A schema gets
no fast check if it has a keyword that the two read differently, or more work in it than its size suggests (a
recursive reference, definitions that double at each step). A value gets no fast check if its size times the
rules that may apply to one of its parts would take seconds: code in Rust cannot be interrupted, and lets no
other thread run.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import jsonschema_rs
from jsonschema import FormatChecker

from sojourn.core.schema.budget import volume
from sojourn.core.schema.formats import FORMAT_EXAMPLES, FORMATS, matches
from sojourn.values.json_value import Schema, children, in_place, is_array, is_object, resolve

__all__ = ["FastValidator", "fast_validator"]

_MAX_EXPANDED = 5_000
"""Most subschemas of a schema, each counted as often as it is referred to."""

_MOST_RULES = 100_000_000
"""Most rules times bytes of a value: about a second."""

_MOST_AT_ONCE = 1_000_000
"""Most rules times bytes that hold up no event loop."""

_COST_OF_CALLS = 20
"""Rules that cost as much as one call from Rust to Python, for a pattern or format."""

_PARTS_PER_RULE = 8
"""Names or values of a keyword that are searched in the time of one rule."""

_EXACT = 2**53
"""The largest integer up to which every integer has its own float."""

_NUMBERS = ("const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")

_OF_FIELDS = ("additionalProperties", "propertyNames")
_OF_ITEMS = ("items", "prefixItems", "contains")

_READ_DIFFERENTLY = (
    "multipleOf",
    "patternProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
    "$id",
    "$anchor",
)


class _RustPattern:
    """The keyword `pattern` on RE2.

    A pattern that RE2 does not support accepts everything.
    """

    def __init__(self, parent_schema: dict[str, Any], value: Any, schema_path: list[str | int]) -> None:
        del parent_schema, schema_path
        self._pattern = value

    def validate(self, instance: Any) -> None:
        if isinstance(instance, str) and not matches(self._pattern, instance):
            raise ValueError


@dataclass(frozen=True, slots=True)
class FastValidator:
    is_valid: Callable[[Any], bool]
    width: int
    """Most rules that may apply to one part of a value."""

    def accepts(self, value: Any, *, at_once: bool = False) -> bool:
        """Return whether a value certainly fits the schema.

        False means unknown.
        """
        if self.width * volume(value) > (_MOST_AT_ONCE if at_once else _MOST_RULES):
            return False
        try:
            return self.is_valid(value)
        except (ValueError, TypeError, OverflowError, RecursionError):
            return False


def fast_validator(schema: Schema, formats: FormatChecker = FORMATS) -> FastValidator | None:
    """Return the fast check of a schema.

    None if it would not be cheap, or would not agree with the dialect.
    """
    if _count_expanded(schema) is None:
        return None
    try:
        width = _Breadth(schema).of([schema])
        validator = jsonschema_rs.Draft202012Validator(
            schema,
            formats=_formats(formats),
            validate_formats=True,
            keywords={"pattern": _RustPattern},
            offline=True,
        )
    except (ValueError, jsonschema_rs.ReferencingError, RecursionError):
        return None
    return FastValidator(validator.is_valid, width)


class _Breadth:
    def __init__(self, root: Schema) -> None:
        self._root = root
        self._left = 4 * _MAX_EXPANDED

    def of(self, schemas: list[Schema]) -> int:
        here = list(schemas)
        for schema in here:
            here.extend(in_place(self._root, schema))
            self._left -= 1
            if self._left < 0:
                raise ValueError("too many places")
        fields: dict[str, list[Schema]] = {}
        others: list[Schema] = []
        items: list[Schema] = []
        for schema in here:
            for (word, *step), child in children(schema):
                if word == "properties":
                    fields.setdefault(str(step[0]), []).append(child)
                elif word in _OF_FIELDS:
                    others.append(child)
                elif word in _OF_ITEMS:
                    items.append(child)
        inner = [[*named, *others] for named in fields.values()]
        return max(sum(map(_rules, here)), *(self.of(each) for each in (*inner, others, items) if each), 0)


def _rules(schema: Schema) -> int:
    listed = sum(len(rule) for rule in schema.values() if is_array(rule) or is_object(rule))
    calls = ("pattern" in schema) + ("format" in schema)
    return 1 + listed // _PARTS_PER_RULE + calls * _COST_OF_CALLS


def _holds_large_numbers(schema: Schema) -> bool:
    # The two libraries compare such integers and floats differently.
    numbers = [schema.get(word) for word in _NUMBERS] + list(schema.get("enum") or ())
    return any(isinstance(number, (int, float)) and abs(number) > _EXACT for number in numbers)


@cache
def _formats(checker: FormatChecker) -> dict[str, Callable[[str], bool]]:
    # The annotations must not be stricter here: inside a `not`, stricter would accept more.
    return {
        **dict.fromkeys(("iri", "iri-reference", "regex", "uri-template"), _annotation),
        **{name: _format(checker, name) for name in FORMAT_EXAMPLES},
    }


def _format(checker: FormatChecker, name: str) -> Callable[[str], bool]:
    return lambda text: checker.conforms(text, name)


def _annotation(text: str) -> bool:
    del text
    return True


def _count_expanded(root: Schema) -> int | None:
    # None for endless recursion, or a keyword that the two libraries read differently.
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

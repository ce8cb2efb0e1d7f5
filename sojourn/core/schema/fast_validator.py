"""A quick yes: jsonschema-rs says of most good payloads that they are good, some fifty times as fast.

Only its yes counts. Whatever it refuses or cannot judge is judged by `sojourn.core.schema.dialect`, which also
finds the faults. The two agree: formats and patterns are ours here too, and a schema with a word that the two read differently, or with more work in it than its size shows (a recursive
reference, definitions that double at each step), gets no quick yes at all. Nor does a value, where
all the rules that may meet one of its parts, times its size, would keep the processor for seconds: what runs in
Rust cannot be interrupted, and lets no other thread run.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from sojourn.core.schema.budget import volume
from sojourn.core.schema.formats import FORMAT_EXAMPLES, FORMATS, matches
from sojourn.core.values.json_value import is_array, is_object
from sojourn.core.values.pointer import Schema, children, in_place, resolve

__all__ = ["FastValidator", "fast_validator"]

_MAX_EXPANDED = 5_000
"""Subschemas, each counted as often as it is referred to."""

_MOST_RULES = 100_000_000
"""Rules that may meet bytes of a value, at the most: about a second."""

_MOST_AT_ONCE = 1_000_000
"""As many as hold nobody up."""

_COST_OF_CALLS = 20
"""Rules in whose time Rust asks Python about a pattern or format."""

_PARTS_PER_RULE = 8
"""Names or values that a keyword lists, looked through in the time of one rule."""

_EXACT = 2**53
"""Whole numbers up to here have floats of their own."""

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


class _Pattern:
    """The keyword `pattern` as we read it: RE2, and nothing asked where RE2 cannot run it."""

    def __init__(self, parent_schema: dict[str, Any], value: Any, schema_path: list[str | int]) -> None:
        del parent_schema, schema_path
        self._pattern = value

    def validate(self, instance: Any) -> None:
        if isinstance(instance, str) and not matches(self._pattern, instance):
            raise ValueError


@dataclass(frozen=True, slots=True)
class FastValidator:
    """A compiled schema that may be asked about values of a bounded size."""

    is_valid: Callable[[Any], bool]
    width: int
    """Rules that one part of a value may meet."""

    def says(self, value: Any, *, at_once: bool = False) -> bool:
        """Whether a value surely fits the schema; false says nothing.

        Args:
            value: One without integers of more than 4,300 digits, as `sojourn.core.values.json_fault` sees to.
            at_once: Only where no event loop would notice.
        """
        if self.width * volume(value) > (_MOST_AT_ONCE if at_once else _MOST_RULES):
            return False
        try:
            return self.is_valid(value)
        except (ValueError, TypeError, OverflowError, RecursionError):
            return False


def fast_validator(schema: Schema) -> FastValidator | None:
    """Says whether a value surely fits the schema; None where it could not say so cheaply."""
    if _expanded(schema) is None:
        return None
    try:
        width = _Breadth(schema).of([schema])
        validator = jsonschema_rs.Draft202012Validator(
            schema,
            formats=_FORMATS,
            validate_formats=True,
            keywords={"pattern": _Pattern},
            offline=True,
        )
    except (ValueError, jsonschema_rs.ReferencingError, RecursionError):
        return None
    return FastValidator(validator.is_valid, width)


class _Breadth:
    """How many rules one part of a value may meet: all those that speak of the same place."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._left = 4 * _MAX_EXPANDED

    def of(self, schemas: list[Schema]) -> int:
        """The most rules that meet a value, or a part of it.

        Raises:
            ValueError: there are too many places to look at.
        """
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
    """What the keywords of one subschema cost, in rules."""
    listed = sum(len(rule) for rule in schema.values() if is_array(rule) or is_object(rule))
    calls = ("pattern" in schema) + ("format" in schema)
    return 1 + listed // _PARTS_PER_RULE + calls * _COST_OF_CALLS


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

"""Keywords that Sojourn checks itself: those of one value, and `unevaluated*`.

jsonschema's own keywords write the value into every message, which costs its length for each rule and is
never read here; they compare a value with each value of an `enum`, and each item with every other item. Here
equal values have equal keys: `enum`, `const` and `uniqueItems` take linear time.

For `unevaluated*`, plain jsonschema runs the patterns of `patternProperties` on Python's `re`, and a hostile
one never ends. If no branch of a union fits, it also reports the union's fields as unknown, beside the union's
own error. For items it searches a list of indexes for each item.
"""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from jsonschema.exceptions import ValidationError

from sojourn.core.schema.budget import BUDGET, volume
from sojourn.core.schema.formats import matches
from sojourn.values.json_value import Schema, is_array, is_object, resolve

__all__ = ["LEAVES", "unevaluated_items", "unevaluated_properties"]

_CHARS_PER_STEP = 256
_KEYED_BYTES_PER_STEP = 32

_Keyword = Callable[[Any, Any, Any, Any], Iterator[ValidationError]]


def _leaf(message: str, fits: Callable[[Any, Any, Any], bool]) -> _Keyword:
    def keyword(validator: Any, rule: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
        if not fits(validator, rule, instance):
            yield ValidationError(message)

    return keyword


def _is_of_type(validator: Any, rule: Any, instance: Any) -> bool:
    names = [rule] if isinstance(rule, str) else rule
    return any(validator.is_type(instance, name) for name in names)


def _is_among(_validator: Any, values: list[Any], instance: Any) -> bool:
    known = BUDGET.get().known.choices
    if id(values) not in known:
        known[id(values)] = values, frozenset(map(_key, values))
    return _counted_key(instance) in known[id(values)][1]


def _is_the_constant(_validator: Any, constant: Any, instance: Any) -> bool:
    if _is_container(constant) != _is_container(instance):
        return False
    return _counted_key(instance) == _counted_key(constant)


def _is_unique(_validator: Any, rule: bool, instance: Any) -> bool:
    if not (rule and is_array(instance)):
        return True
    BUDGET.get().spend(volume(instance) // _KEYED_BYTES_PER_STEP)
    return len({_key(item) for item in instance}) == len(instance)


def _is_container(value: Any) -> bool:
    return is_array(value) or is_object(value)


def _counted_key(value: Any) -> Any:
    if _is_container(value):
        BUDGET.get().spend(volume(value) // _KEYED_BYTES_PER_STEP)
    return _key(value)


def _key(value: Any) -> Any:
    # 1 equals 1.0, and true does not equal 1. The key of a number is its text: unlike hashes of numbers,
    # hashes of texts cannot be chosen to collide.
    match value:
        case str() | None:
            return value
        case bool():
            return ("boolean", value)
        case int():
            return ("number", str(value))
        case float():
            return ("number", str(int(value)) if value.is_integer() else repr(value))
        case _ if is_array(value):
            return ("array", *map(_key, value))
        case _ if is_object(value):
            return frozenset((name, _key(item)) for name, item in value.items())
        case _:
            return value


def _is_multiple(_validator: Any, step: float, instance: Any) -> bool:
    """Return whether a number is a multiple in decimals: 19.99 is a multiple of 0.01."""
    if not isinstance(instance, (int, float)) or isinstance(instance, bool):
        return True
    return math.isfinite(instance) and (_exact(instance) / _exact(step)).denominator == 1


def _exact(number: float) -> Fraction:
    return Fraction(number) if isinstance(number, int) else Fraction(repr(number))


def _has_format(validator: Any, name: str, instance: Any) -> bool:
    if isinstance(instance, str):
        BUDGET.get().spend(len(instance) // _CHARS_PER_STEP)
    return validator.format_checker.conforms(instance, name)


def _at_least(kind: type) -> Callable[[Any, Any, Any], bool]:
    return lambda _validator, rule, instance: not isinstance(instance, kind) or len(instance) >= rule


def _at_most(kind: type) -> Callable[[Any, Any, Any], bool]:
    return lambda _validator, rule, instance: not isinstance(instance, kind) or len(instance) <= rule


def _negation(validator: Any, rule: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if validator.evolve(schema=rule).is_valid(instance):
        yield ValidationError("fits what it must not")


def _contains(validator: Any, rule: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not is_array(instance):
        return
    least, most = schema.get("minContains", 1), schema.get("maxContains", len(instance))
    inner, found = validator.evolve(schema=rule), 0
    for item in instance:
        found += inner.is_valid(item)
        if found > most:
            yield ValidationError("too many fit", validator="maxContains", validator_value=most)
            return
    if found == 0 < least:
        yield ValidationError("none fits")
    elif found < least:
        yield ValidationError("too few fit", validator="minContains", validator_value=least)


LEAVES: dict[str, Any] = {
    "const": _leaf("is not the constant", _is_the_constant),
    "contains": _contains,
    "enum": _leaf("is not among the values", _is_among),
    "format": _leaf("has not the format", _has_format),
    "maxItems": _leaf("too many items", _at_most(list)),
    "maxLength": _leaf("too long", _at_most(str)),
    "maxProperties": _leaf("too many fields", _at_most(dict)),
    "minItems": _leaf("too few items", _at_least(list)),
    "minLength": _leaf("too short", _at_least(str)),
    "minProperties": _leaf("too few fields", _at_least(dict)),
    "multipleOf": _leaf("not a multiple", _is_multiple),
    "not": _negation,
    "type": _leaf("is of another type", _is_of_type),
    "uniqueItems": _leaf("items repeat", _is_unique),
}
"""The functions by keyword, as jsonschema calls them."""


def unevaluated_properties(
    validator: Any, rule: Any, instance: Any, schema: Schema
) -> Iterator[ValidationError]:
    """Yield an error for each unevaluated name, with the name in its path."""
    if is_object(instance) and "additionalProperties" not in schema:
        beside = {word: value for word, value in schema.items() if word != "unevaluatedProperties"}
        known = _evaluated_names(validator, instance, beside)
        for name, value in instance.items():
            if name not in known and not validator.evolve(schema=rule).is_valid(value):
                yield ValidationError("unknown", path=[name])


def _evaluated_names(validator: Any, instance: dict[str, Any], schema: Any) -> set[str]:
    # If no branch of a union fits, which is an error of its own, all names of its branches count.
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
        *(_evaluated_names(validator, instance, part) for part in _list_applied(validator, instance, spoken))
    )


def unevaluated_items(validator: Any, rule: Any, instance: Any, schema: Schema) -> Iterator[ValidationError]:
    if not is_array(instance) or "items" in schema:
        return
    beside = {word: value for word, value in schema.items() if word != "unevaluatedItems"}
    known = _evaluated_places(validator, instance, beside)
    inner = validator.evolve(schema=rule)
    if any(place not in known and not inner.is_valid(item) for place, item in enumerate(instance)):
        yield ValidationError("unevaluated items")


def _evaluated_places(validator: Any, instance: list[Any], schema: Any) -> set[int]:
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
        *(_evaluated_places(validator, instance, part) for part in _list_applied(validator, instance, schema))
    )


def _list_applied(validator: Any, instance: Any, schema: Schema) -> Iterator[Any]:
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

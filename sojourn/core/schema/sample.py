"""Make a value from a schema alone.

The value is always the same. It comes from defaults, constants, enums, formats, patterns and bounds. Only
required fields are filled in. If the schema states too little, there is no sample.
"""

import math
from typing import Any, cast

from sojourn.core.schema.formats import FORMAT_EXAMPLES, matches
from sojourn.core.schema.pattern import text_for
from sojourn.values.json_value import Schema, is_array, is_object, resolve

__all__ = ["NoSampleError", "sample", "sample_field"]

_TEXT = "example"
_MAX_DEPTH = 12
_MAX_PARTS = 1_000
_MAX_ITEMS = 20
_MAX_TEXT = 1_000
_TELLING_WORDS = (
    ("object", ("properties", "required")),
    ("array", ("items", "prefixItems")),
    ("number", ("minimum", "maximum", "multipleOf")),
    ("string", ("pattern", "minLength", "maxLength")),
)

_SAYING = {
    *("type", "default", "const", "enum", "examples", "oneOf", "anyOf", "allOf", "$ref", "not"),
    *(word for _, words in _TELLING_WORDS for word in words),
}
"""Keywords that each say something about a value."""


class NoSampleError(Exception):
    """The schema states too little to make a value."""


def sample(root: Schema, schema: Any) -> Any:
    """Return a value for a schema, which the caller has to validate."""
    try:
        return _Sampler(root).make(schema, 0)
    except OverflowError:
        raise NoSampleError from None


def sample_field(root: Schema, schema: Any) -> Any:
    """Return a value for a required field, as `sample` does."""
    try:
        return _Sampler(root).field(schema, 0)
    except OverflowError:
        raise NoSampleError from None


class _Sampler:
    def __init__(self, root: Schema) -> None:
        self.root = root
        self.parts = 0

    def make(self, schema: Any, depth: int) -> Any:
        if depth > _MAX_DEPTH or not is_object(schema):
            raise NoSampleError
        flat = self._flat(schema, 0)
        for word in ("default", "const"):
            if word in flat:
                return flat[word]
        for word in ("examples", "enum"):
            if values := flat.get(word):
                return values[0]
        for word in ("oneOf", "anyOf"):
            if branches := flat.get(word):
                return self._of_branches(flat, word, branches, depth)
        return self._of_type(flat, depth)

    def field(self, schema: Any, depth: int) -> Any:
        is_open = is_object(schema) and not _SAYING.intersection(schema)
        return _TEXT if is_open else self.make(schema, depth)

    def _of_branches(self, flat: Schema, word: str, branches: list[Any], depth: int) -> Any:
        # The branch is joined with the keywords beside the branches.
        beside = {name: value for name, value in flat.items() if name != word}
        for branch in sorted(branches, key=_is_null):
            try:
                return self.make({"allOf": [beside, branch]}, depth)
            except NoSampleError:
                continue
        raise NoSampleError

    def _of_type(self, flat: Schema, depth: int) -> Any:
        match _type(flat):
            case "object":
                properties = flat.get("properties", {})
                return {
                    name: self.field(properties.get(name, {}), depth + 1) for name in flat.get("required", ())
                }
            case "array":
                return self._array(flat, depth)
            case "string":
                return _string(flat)
            case "integer":
                return int(_number(flat))
            case "number":
                return _number(flat)
            case "boolean":
                return False
            case "null":
                return None
            case _:
                raise NoSampleError

    def _array(self, flat: Schema, depth: int) -> list[Any]:
        needed = flat.get("minItems", 0)
        if needed > _MAX_ITEMS:
            raise NoSampleError
        prefix: list[Any] = flat.get("prefixItems", [])
        rest = [flat.get("items")] * (needed - len(prefix))
        return [self.make(each, depth + 1) for each in [*prefix[:needed], *rest]]

    def _flat(self, schema: Schema, depth: int) -> Schema:
        self.parts += 1
        if depth > _MAX_DEPTH or self.parts > _MAX_PARTS:
            raise NoSampleError
        parts: list[Any] = list(schema.get("allOf", ()))
        if "$ref" in schema:
            parts.insert(0, resolve(self.root, schema["$ref"]))
        flat: Schema = {}
        for part in parts:
            if is_object(part):
                _join(flat, self._flat(part, depth + 1))
        _join(flat, {word: value for word, value in schema.items() if word not in ("allOf", "$ref")})
        return flat


def _join(flat: Schema, part: Schema) -> None:
    for word, value in part.items():
        if word == "properties":
            known: Schema = dict(flat.get(word, {}))
            for name, field in value.items():
                known[name] = {"allOf": [known[name], field]} if name in known else field
            flat[word] = known
        elif word == "required":
            flat[word] = list(dict.fromkeys([*flat.get(word, ()), *value]))
        else:
            flat[word] = value


def _is_null(branch: Any) -> bool:
    return is_object(branch) and branch.get("type") == "null"


def _type(flat: Schema) -> str | None:
    named = flat.get("type")
    if is_array(named):
        return next((each for each in cast("list[str]", named) if each != "null"), "null")
    if named is not None:
        return named
    return next((kind for kind, words in _TELLING_WORDS if any(word in flat for word in words)), None)


def _string(flat: Schema) -> str:
    least, most = flat.get("minLength", 0), min(flat.get("maxLength", _MAX_TEXT), _MAX_TEXT)
    if least > _MAX_TEXT:
        raise NoSampleError
    pattern, formatted = flat.get("pattern"), FORMAT_EXAMPLES.get(flat.get("format", ""))
    if formatted is not None and (pattern is None or matches(pattern, formatted)):
        return formatted
    if pattern is None:
        return _TEXT.ljust(int(least), "x")[: int(most)]
    made = text_for(pattern, max(int(least), 1), int(most)) or text_for(pattern, int(least), int(most))
    if made is None:
        raise NoSampleError
    return made


def _number(flat: Schema) -> float:
    # With only an upper bound, return the largest, at most 0. Without bounds, return 0.
    step = flat.get("multipleOf", 1)
    above, below = flat.get("exclusiveMinimum", -math.inf), flat.get("exclusiveMaximum", math.inf)
    low, high = max(flat.get("minimum", above), above), min(flat.get("maximum", below), below)
    if low == -math.inf:
        number = 0 if high >= 0 else math.floor(high / step) * step
        return number - step if number >= below else number
    number = math.ceil(low / step) * step
    number = number + step if number <= above else number
    if number > high or number >= below:  # only a fraction fits between the bounds
        return low if low > above else (low + high) / 2
    return number

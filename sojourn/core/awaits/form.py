"""Build and check forms that a person can fill in.

A form has the shape of its fields inline, without references, to a depth of 4. A planner's question
records it, so that a later version of the tool does not change an open question.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.schema.issues import phrase
from sojourn.core.schema.validate import Validator
from sojourn.values.json_value import (
    Schema,
    expand,
    is_array,
    is_object,
    json_type,
    list_of,
    locate,
    resolve,
    to_pointer,
    to_tokens,
)
from sojourn.values.text import clip, closest_name, with_article

__all__ = ["form_faults", "form_of", "has_fields", "is_closed", "mismatch_of", "values_of"]

_WORDS = (
    "const",
    "default",
    "description",
    "enum",
    "format",
    "maxLength",
    "maximum",
    "minLength",
    "minimum",
    "title",
    "type",
)

_ALTERNATIVES = ("anyOf", "oneOf", "if", "not", "dependentSchemas")
"""Keywords after which a form leaves a field open: only the tool can tell which alternative applies."""

_RULES = (
    *_WORDS,
    "exclusiveMaximum",
    "exclusiveMinimum",
    "maxItems",
    "minItems",
    "multipleOf",
    "pattern",
    "uniqueItems",
)
"""Keywords of a field whose whole shape is known."""

_MAX_DEPTH = 4
_MAX_SHAPES = 200
"""Most schemas in a form, nested ones included."""

_MAX_BYTES = 20_000
_MAX_OPTIONS = 8
_MAX_REFERENCES = 6
_MAX_FIELDS = 50
_MAX_ENUM = 100
_MAX_TEXT = 500
_MAX_SHOWN = 150


def form_of(spec: ToolSpec, fields: Sequence[str]) -> Schema | None:
    """Build a form of some fields of a tool's payload, each a name or a JSON pointer.

    None if the tool has none of the fields. A field that the tool lacks is left open. A field is required
    if its object in the payload requires it.
    """
    within = fields[:_MAX_FIELDS]
    parts_of = {field: _parts(spec, field) for field in within}
    if not any(parts_of.values()):
        return None
    shapes = _Shapes(spec.payload.json_schema)
    form: Schema = {
        "type": "object",
        "properties": {field: shapes.of(parts) for field, parts in parts_of.items()},
    }
    if len(json.dumps(form)) > _MAX_BYTES:
        form["properties"] = {field: _simple(parts) for field, parts in parts_of.items()}
    if required := [field for field in within if _is_required(spec, field)]:
        form["required"] = required
    if len(within) == len(fields):
        form["additionalProperties"] = False
    return form


def has_fields(spec: ToolSpec, fields: Sequence[str]) -> bool:
    """Return whether the list is not empty and the tool's payload has all its fields."""
    return bool(fields) and all(_parts(spec, field) for field in fields)


def is_closed(form: Schema | None) -> bool:
    return form is not None and form.get("additionalProperties") is False


def _parts(spec: ToolSpec, field: str) -> list[Schema]:
    schema = spec.payload.json_schema
    return [part for found in locate(schema, _tokens(field)) for part in expand(schema, found)]


def _is_required(spec: ToolSpec, field: str) -> bool:
    # A keyword of one alternative (`anyOf`) binds only the payloads that choose it.
    *above, name = _tokens(field)
    schema = spec.payload.json_schema
    objects = [_Shapes(schema).merge(found)[0] for found in locate(schema, above)]
    return bool(objects) and all(name in list_of(each.get("required")) for each in objects)


def _tokens(field: str) -> Sequence[str]:
    return to_tokens(field) if field.startswith("/") else (field,)


@dataclass(slots=True)
class _Shapes:
    """Copies schemas of a tool into a form, without references and within bounds."""

    root: Schema
    count: int = 0

    def of(self, parts: Sequence[Schema]) -> Schema:
        """Return the shape of a field, whose own schema is the first part."""
        return self._property(parts[0], 0, ()) if parts else {}

    def _shape(self, given: Schema, depth: int, above: tuple[int, ...]) -> Schema:
        schema, can_be_null = self.merge(given)
        options = _options(schema)
        mark = id(schema.get("properties") or schema.get("items") or schema)
        self.count += 1
        is_cut = depth > _MAX_DEPTH or mark in above or self.count > _MAX_SHAPES
        if is_cut or len(options) > _MAX_OPTIONS or any(word in schema for word in _OPEN):
            return _simple(expand(self.root, given))
        kept: Schema = {word: schema[word] for word in _RULES if word in schema}
        inner = (depth + 1, (*above, mark))
        if is_object(properties := schema.get("properties")) and properties:
            if len(properties) > _MAX_FIELDS:
                return _simple(expand(self.root, given))
            kept["properties"] = {name: self._property(each, *inner) for name, each in properties.items()}
            kept["required"] = [name for name in list_of(schema.get("required")) if name in properties]
            if schema.get("additionalProperties") is False:
                kept["additionalProperties"] = False
        if is_object(items := schema.get("items")):
            kept["items"] = self._inner(items, *inner)
        if options:
            kept["anyOf"] = [self._inner(each, *inner) for each in options]
            is_choice = all("const" in each for each in kept["anyOf"])
            kept["anyOf"] += [{"const": None} if is_choice else {"type": "null"}] * can_be_null
        elif can_be_null:
            _allow_null(kept)
        if len(kept.get("enum", ())) > _MAX_ENUM:
            del kept["enum"]
        _shorten(kept)
        return kept

    def _property(self, schema: Any, depth: int, above: tuple[int, ...]) -> Schema:
        """Return the shape of a named value, without the title of its type."""
        shape = self._inner(schema, depth, above)
        if "properties" in shape and "title" not in schema:
            shape.pop("title", None)
        return shape

    def _inner(self, schema: Any, depth: int, above: tuple[int, ...]) -> Schema:
        return self._shape(schema, depth, above) if is_object(schema) else {}

    def merge(self, schema: Schema) -> tuple[Schema, bool]:
        """Return a schema with what it refers to, and whether null was an alternative."""
        found, can_be_null = dict(schema), False
        for _ in range(_MAX_REFERENCES):
            word = next((word for word in ("anyOf", "oneOf") if is_array(found.get(word))), "")
            options = [each for each in list_of(found.get(word)) if each != {"type": "null"}]
            whole = list_of(found.get("allOf"))
            if word:
                can_be_null = can_be_null or len(options) < len(found[word])
                found[word] = options
            if isinstance(reference := found.get("$ref"), str):
                more: Any = resolve(self.root, reference) if reference.startswith("#") else None
                del found["$ref"]
            elif len(whole) == 1:
                (more,) = whole
                del found["allOf"]
            elif len(options) == 1:
                (more,) = options
                del found[word]
            else:
                break
            found = {**more, **found} if is_object(more) else found
        return found, can_be_null


_OPEN = ("$ref", "allOf", "if", "not", "dependentSchemas", "patternProperties")
"""Keywords after which the shape of a field is not known."""


def _options(schema: Schema) -> list[Any]:
    return list_of(schema.get("anyOf")) or list_of(schema.get("oneOf"))


def _allow_null(schema: Schema) -> None:
    if isinstance(kind := schema.get("type"), str):
        schema["type"] = [kind, "null"]
    if "const" in schema:
        schema["enum"] = [schema.pop("const")]
    if is_array(values := schema.get("enum")) and None not in values:
        schema["enum"] = [*values, None]


def _simple(parts: Sequence[Schema]) -> Schema:
    kept: Schema = {}
    for part in parts:
        for word in _WORDS:
            if word in part and word not in kept:
                kept[word] = part[word]
    if any(word in part for part in parts for word in _ALTERNATIVES):
        kept = {word: kept[word] for word in ("title", "description") if word in kept}
    if len(kept.get("enum", ())) > _MAX_ENUM:
        del kept["enum"]
    _shorten(kept)
    return kept


def _shorten(schema: Schema) -> None:
    for word in ("title", "description"):
        if isinstance(schema.get(word), str):
            schema[word] = schema[word][:_MAX_TEXT]


def values_of(form: Schema, text: str) -> dict[str, Any] | None:
    """Read the values in a text: a JSON object, or the value of the only field.

    None for plain words.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    properties = _properties(form)
    if len(properties) != 1:
        return None
    ((name, schema),) = properties.items()
    if _mismatch(schema, text) is None:
        return {name: text}
    return {name: value} if value is not None and _mismatch(schema, value) is None else None


def mismatch_of(
    form: Schema,
    values: dict[str, Any] | None,
    *,
    whole: bool,
    closed: bool = False,
    in_full: bool = False,
) -> str | None:
    """Return why these values do not fit the form, as a clause, or None.

    Args:
        form: A flat object schema, perhaps a foreign and malformed one.
        values: The values by field.
        whole: Whether required fields must be there and undeclared ones must not: a tool uses the values unchanged,
            while a planner reads them.
        closed: Whether undeclared fields are refused at least, as misspellings.
        in_full: Whether patterns, formats and nested values are checked too. Only for a form of `form_of`.
    """
    properties = _properties(form)
    if values is None:
        return f"values by field are wanted: {_names(properties)}"
    missing = _missing(form, values) if whole else ""
    unknown = _unknown(properties, values) if whole or closed else ""
    # A misspelt field is missing too. Recorded refusals of other forms say that it is missing.
    if wrong := (unknown or missing) if in_full else (missing or unknown):
        return wrong
    for name, value in values.items():
        if name in properties and (wrong := _mismatch(properties[name], value)):
            return f"{_names([name])} {wrong}"
    inner = _inner_faults(properties, values) if in_full else {}
    pointer = next((each for each, fault in inner.items() if _MEANT in fault), next(iter(inner), ""))
    return f"{_names(['/'.join(to_tokens(pointer))])} {inner[pointer]}" if inner else None


def _missing(form: Schema, values: Mapping[str, Any]) -> str:
    missing = _missing_names(form, values)
    return f"{_names(missing)} {'is' if len(missing) == 1 else 'are'} missing" if missing else ""


def _missing_names(form: Schema, values: Mapping[str, Any]) -> list[str]:
    required = list_of(form.get("required"))
    return [name for name in required if isinstance(name, str) and name not in values]


def _unknown(properties: Mapping[str, Schema], values: Mapping[str, Any]) -> str:
    unknown = [name for name in values if name not in properties]
    if not unknown:
        return ""
    only = f", only {_names(properties)}" if properties else ""
    return f"there is no field {_names(unknown[:1])!r}{only}{_suggestion(unknown[0], [*properties])}"


def form_faults(
    form: Schema, values: dict[str, Any], *, whole: bool, closed: bool = False, in_full: bool = False
) -> list[dict[str, str]]:
    """Return every reason why values do not fit a form.

    Each has its `field`, a JSON pointer, and a `message`. The arguments are those of `mismatch_of`, which returns the first reason as a clause.
    """
    properties, faults = _properties(form), dict[str, str]()
    for name in _missing_names(form, values) if whole else []:
        faults[to_pointer([name])] = "is required"
    for name, value in values.items():
        if name in properties:
            if wrong := _mismatch(properties[name], value):
                faults[to_pointer([name])] = wrong
        elif whole or closed:
            faults[to_pointer([name])] = f"is not a known field{_suggestion(name, [*properties])}"
    if in_full:
        faults |= _inner_faults(properties, values)
    return [{"field": field, "message": message} for field, message in faults.items()]


_MEANT = "; did you mean "


def _inner_faults(properties: Mapping[str, Schema], values: dict[str, Any]) -> dict[str, str]:
    """Return what the whole schema finds, by the JSON pointer of the value.

    The message of a misspelt field has the right name.
    """
    schema: Schema = {"type": "object", "properties": dict(properties)}
    faults: dict[str, str] = {}
    for issue in Validator(schema).issues(values):
        *above, name = to_tokens(issue.field) or ("",)
        said = phrase(issue)
        if above and issue.constraint in ("unknown_field", "missing_field"):
            known = _names_at(schema, above)
            given = [each for each in _keys_at(values, above) if each not in known]
            if issue.constraint == "unknown_field":
                said += _suggestion(name, known)
            elif (meant := closest_name(name, given)) is not None:
                faults[to_pointer([*above, meant])] = f"is not a known field{_MEANT}{_names([name])!r}?"
        faults.setdefault(issue.field, said)
    return faults


def _names_at(schema: Schema, tokens: Sequence[str]) -> list[str]:
    """Return the names of the fields of an object inside a form."""
    parts = [part for found in locate(schema, tuple(tokens)) for part in expand(schema, found)]
    return [name for part in parts for name in _properties(part)]


def _keys_at(value: Any, tokens: Sequence[str]) -> list[str]:
    for token in tokens:
        if is_object(value):
            value = value.get(token)
        elif is_array(value) and token.isdigit() and int(token) < len(value):
            value = value[int(token)]
    return list(value) if is_object(value) else []


def _properties(form: Schema) -> dict[str, Schema]:
    properties = form.get("properties")
    if not is_object(properties):
        return {}
    return {name: schema if is_object(schema) else {} for name, schema in properties.items()}


def _suggestion(name: str, names: Sequence[str]) -> str:
    last_part = to_tokens(name)[-1:] or ("",)
    nested = [other for other in names if to_tokens(other)[-1:] == last_part]
    closest = nested[0] if len(nested) == 1 else closest_name(name, names)
    return f"{_MEANT}{_names([closest])!r}?" if closest is not None else ""


def _names(names: Iterable[str]) -> str:
    return clip(", ".join(names), _MAX_SHOWN)


def _mismatch(schema: Schema, value: Any) -> str | None:
    types: Any = schema.get("type")
    wanted = [types] if isinstance(types, str) else types
    if isinstance(wanted, list) and not _is_of(cast("list[Any]", wanted), value):
        types = " or ".join(map(str, cast("list[Any]", wanted)))
        return f"must be {with_article(types)}, not {with_article(json_type(value))}"
    allowed: Any = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(allowed, list) and not any(_same(value, item) for item in cast("list[Any]", allowed)):
        return f"must be one of {_list(cast('list[Any]', allowed))}"
    if isinstance(value, list):
        return _items_mismatch(schema, cast("list[Any]", value))
    if isinstance(value, str):
        return _outside(len(value), schema, "minLength", "maxLength", " characters long")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _outside(value, schema, "minimum", "maximum", "")
    return None


def _items_mismatch(schema: Schema, items: list[Any]) -> str | None:
    wrong = _outside(len(items), schema, "minItems", "maxItems", " items long")
    shape = schema.get("items")
    if wrong or not isinstance(shape, dict):
        return wrong
    inner = next((wrong for item in items if (wrong := _mismatch(cast("Schema", shape), item))), None)
    return f"has an item that {inner}" if inner else None


def _is_of(wanted: list[Any], value: Any) -> bool:
    actual = json_type(value)
    whole = isinstance(value, float) and math.isfinite(value) and value.is_integer()
    return actual in wanted or (actual == "integer" and "number" in wanted) or (whole and "integer" in wanted)


def _outside(number: float, schema: Schema, least: str, most: str, unit: str) -> str | None:
    low, high = schema.get(least), schema.get(most)
    if isinstance(low, (int, float)) and number < low:
        return f"must be at least {low}{unit}"
    return f"must be at most {high}{unit}" if isinstance(high, (int, float)) and number > high else None


def _same(left: Any, right: Any) -> bool:
    """Compare two values as JSON does, so that true is not 1."""
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def _list(allowed: list[Any]) -> str:
    return ", ".join(json.dumps(value, ensure_ascii=False)[:80] for value in allowed[:20])

"""Mend foreign schemas that are not quite JSON Schema.

Servers and generators write such schemas. If a tool's schema has one odd word, the tool is of more use with
that word left out than not at all: its server judges the arguments in any case. So a word with one obvious
meaning is read that way (`nullable`, `required: true` in a property, numbers as texts, types of other
languages). References are made local, and any other word that is not JSON Schema is dropped.
"""

import copy
import json
from collections.abc import Iterator, Sequence
from typing import Any, cast
from urllib.parse import quote, urljoin

from sojourn.core.schema.drafts import in_2020_12, translate_bounds, translate_items
from sojourn.core.schema.enforceable import check, faults_of
from sojourn.values.json_fault import MAX_DEPTH, depth_of
from sojourn.values.json_value import (
    Schema,
    children,
    is_array,
    is_object,
    resolve,
    to_pointer,
    to_tokens,
)

__all__ = ["mend"]

_ROUNDS = 20
"""How often a schema is judged and relaxed."""

_TYPES = {
    "array": "array", "list": "array", "tuple": "array", "set": "array",
    "bool": "boolean", "boolean": "boolean",
    "date": "string", "datetime": "string", "file": "string", "str": "string", "string": "string", "text": "string",
    "dict": "object", "map": "object", "object": "object", "struct": "object",
    "double": "number", "float": "number", "number": "number",
    "int": "integer", "integer": "integer", "long": "integer",
    "none": "null", "null": "null",
}  # fmt: skip
"""Names of types, in lower case; of any other one, and of `any`, all values pass."""

_VALUES = ("const", "default", "enum", "example", "examples")
"""Keywords whose value may be null."""

_NUMBERS = (
    "exclusiveMaximum", "exclusiveMinimum", "maxContains", "maximum", "maxItems", "maxLength", "maxProperties",
    "minContains", "minimum", "minItems", "minLength", "minProperties", "multipleOf",
)  # fmt: skip
_FLAGS = {"true": True, "false": False}
_TEXTS = ("title", "description", "$comment")
_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SCHEMAS = (
    "additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then",
    "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_NAMES = ("$anchor", "$dynamicAnchor")

_Path = tuple[str | int, ...]


def mend(schema: object) -> Schema | None:
    """Return a schema in 2020-12 that `check` accepts, or None if there is none."""
    if not is_object(schema) or depth_of(schema) > MAX_DEPTH:
        return None
    root = _subschema(copy.deepcopy(schema), is_root=True)
    if not is_object(root):
        return None
    _localize(root)
    for _ in range(_ROUNDS):
        try:
            check(root)
        except ValueError:
            faults = faults_of(root)
            if not faults or not all(_drop_keyword(root, to_tokens(pointer)) for pointer in faults):
                return None
        else:
            return root
    return None


def _subschema(given: Any, *, is_root: bool = False) -> Any:
    if isinstance(given, bool):
        return given
    if isinstance(given, str):
        return {"type": _TYPES[given.lower()]} if given.lower() in _TYPES else {}
    if not is_object(given):
        return {}
    schema = {word: value for word, value in given.items() if value is not None or word in _VALUES}
    if not isinstance(schema.get("$schema", ""), str):
        del schema["$schema"]
    if "$schema" in schema:
        schema = in_2020_12(schema)
    _mend_words(schema)
    translate_bounds(schema)
    translate_items(schema)
    _mend_properties(schema)
    _mend_parts(schema)
    return _nullable(schema) if not is_root else schema


def _mend_parts(schema: Schema) -> None:
    for word in _LISTS:
        if word in schema:
            parts: Any = schema[word]
            schema[word] = [_subschema(part) for part in parts] if is_array(parts) else []
            if not schema[word]:
                del schema[word]
    for word in _SCHEMAS:
        if word in schema:
            part: Any = schema[word]
            flag = _FLAGS.get(part.lower()) if isinstance(part, str) else None
            schema[word] = _subschema(part) if flag is None else flag


def _mend_words(schema: Schema) -> None:
    for word in _TEXTS:
        if word in schema and not isinstance(text := schema[word], str):
            del schema[word]
            if is_array(text) and all(isinstance(each, str) for each in text):
                schema[word] = " ".join(text)
    for word in _NUMBERS:
        if isinstance(text := schema.get(word), str):
            del schema[word]
            if (number := _number(text)) is not None:
                schema[word] = number
    if "type" in schema:
        _mend_type(schema)


def _mend_type(schema: Schema) -> None:
    given = schema["type"]
    names = given if is_array(given) else [given]
    kinds = [_TYPES.get(name.lower()) if isinstance(name, str) else None for name in names]
    known = list(dict.fromkeys(kind for kind in kinds if kind))
    if known and None not in kinds:
        schema["type"] = known if is_array(given) and len(known) > 1 else known[0]
    else:
        del schema["type"]


def _mend_properties(schema: Schema) -> None:
    needed: list[Any] = []
    own = schema.get("required")
    if isinstance(own, (list, tuple)):
        needed += cast("Sequence[Any]", own)
    for word in _MAPS:
        if word not in schema:
            continue
        parts: Any = schema[word]
        if not is_object(parts):
            del schema[word]  # such as [], which PHP writes for an empty map
            continue
        if word == "properties":
            needed += [
                name for name, part in parts.items() if is_object(part) and part.get("required") is True
            ]
        schema[word] = {name: _subschema(part) for name, part in parts.items()}
    names = list(dict.fromkeys(name for name in needed if isinstance(name, str)))
    schema["required"] = names
    if not names:
        del schema["required"]


def _nullable(schema: Schema) -> Schema:
    if schema.pop("nullable", None) not in (True, "true"):
        return schema
    if is_array(schema.get("enum")) and None not in schema["enum"]:
        schema["enum"] = [*schema["enum"], None]
    if "type" in schema:
        kinds = schema["type"] if is_array(schema["type"]) else [schema["type"]]
        schema["type"] = list(dict.fromkeys([*kinds, "null"]))
    if any(word in schema for word in ("$ref", "allOf", "anyOf", "oneOf", "const")):
        notes = {word: schema.pop(word) for word in _TEXTS if word in schema}
        return {"anyOf": [schema, {"type": "null"}], **notes}
    return schema


def _number(text: str) -> int | float | None:
    try:
        number: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return number if isinstance(number, (int, float)) and not isinstance(number, bool) else None


# References.


def _localize(root: Schema) -> None:
    # References that lead elsewhere are dropped.
    places = dict(_places(root))
    known = {id(subschema) for _, subschema, _ in _walk(root)}
    own = root.get("$id")
    for path, subschema, base in list(_walk(root)):
        for word in _REFERENCES:
            reference = subschema.pop(word, None)
            if isinstance(reference, str) and (local := _local(root, reference, base, places, known)):
                subschema["$ref"] = local
        if path:
            subschema.pop("$id", None)
    if own is not None and not isinstance(own, str):
        del root["$id"]


def _local(
    root: Schema, reference: str, base: _Path, places: dict[str, _Path], known: set[int]
) -> str | None:
    address, _, fragment = reference.partition("#")
    bases = (
        [base, ()] if not address else [places[each] for each in _addresses(root, address) if each in places]
    )
    for place in bases:
        if fragment and not fragment.startswith("/"):
            path = places.get(f"#{fragment}")
            found = None if path is None else _pointer(path)
        else:
            found = f"{_pointer(place)}{fragment}"
        if found is not None and (target := resolve(root, found)) is not None:
            return found if isinstance(target, bool) or id(target) in known else None
    return None


def _addresses(root: Schema, address: str) -> list[str]:
    own = root.get("$id")
    return [address, urljoin(own, address)] if isinstance(own, str) else [address]


def _pointer(path: _Path) -> str:
    return f"#{quote(to_pointer(path), safe='/~')}"


def _places(root: Schema) -> Iterator[tuple[str, _Path]]:
    """Yield each `$id` and each anchor, as `#anchor`, with the path of its subschema."""
    for path, subschema, _ in _walk(root):
        for name in (subschema.get(word) for word in _NAMES):
            if isinstance(name, str):
                yield f"#{name}", path
        if isinstance(address := subschema.get("$id"), str):
            yield from ((each, path) for each in _addresses(root, address.rstrip("#") or address))


def _walk(root: Schema) -> Iterator[tuple[_Path, Schema, _Path]]:
    # The base is the path of the nearest subschema around it that has an `$id`.
    pending: list[tuple[_Path, Schema, _Path]] = [((), root, ())]
    while pending:
        path, subschema, base = pending.pop()
        base = path if isinstance(subschema.get("$id"), str) else base
        yield path, subschema, base
        pending.extend((path + step, child, base) for step, child in children(subschema))


def _drop_keyword(root: Schema, tokens: tuple[str, ...]) -> bool:
    above: tuple[dict[str, Any], str] | None = None
    node: Any = root
    for token in tokens:
        if is_object(node) and token in node:
            above, node = (node, token), node[token]
        elif is_array(node) and token.isdecimal() and int(token[:9]) < len(node):
            node = node[int(token[:9])]
        else:
            return True  # it went with another one
    if above is None:
        return False
    del above[0][above[1]]
    return True

r"""Copies of subschemas and patterns that every provider takes.

A copy has no keyword of another draft, no value of a wrong type, no array without `items`, and no reference
but to `#/$defs/NAME`. llama.cpp's grammar refuses `\d`, `\w` and `\s`, and a pattern that is not anchored
at both ends.
"""

import re
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from sojourn.values.json_fault import MAX_DEPTH
from sojourn.values.json_value import ABSENT, Schema, is_array, is_object, resolve, to_tokens
from sojourn.values.text import clip

__all__ = ["Subschemas", "portable_pattern"]

MAX_PATTERN: Final = 500
_CLASSES: Final = {"d": "0-9", "w": "A-Za-z0-9_", "s": r" \t\r\n"}

_UNSUPPORTED: Final = "bBpPkc"
"""Escapes that some servers do not know: word boundaries, Unicode classes, named back references, control characters."""


class _UnportableError(Exception):
    pass


def portable_pattern(pattern: str) -> str | None:
    """Return an anchored pattern that matches the same lines, or None."""
    if len(pattern) > MAX_PATTERN:
        return None
    try:
        return _PatternReader(pattern).read()
    except _UnportableError:
        return None


class _PatternReader:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._depth = 0
        self._has_alternatives = False
        self._begins = pattern.startswith("^")
        self._ends = False

    def read(self) -> str:
        self._at = int(self._begins)
        body = ""
        while self._at < len(self._pattern):
            body += self._next()
        if self._depth:
            raise _UnportableError
        if self._has_alternatives:
            if self._begins or self._ends:  # an anchor belongs to one of the alternatives
                raise _UnportableError
            body = f"(?:{body})"
        return f"^{'' if self._begins else '.*'}{body}{'' if self._ends else '.*'}$"

    def _take(self) -> str:
        if self._at >= len(self._pattern):
            raise _UnportableError
        self._at += 1
        return self._pattern[self._at - 1]

    def _next(self) -> str:
        match self._take():
            case "\\":
                return self._escape(in_class=False)
            case "[":
                return self._class()
            case "(":
                return self._group()
            case ")":
                self._depth -= 1
                return ")"
            case "|":
                self._has_alternatives |= self._depth == 0
                return "|"
            case "^":
                raise _UnportableError
            case "$":
                if self._at < len(self._pattern):
                    raise _UnportableError
                self._ends = True
                return ""
            case character:
                return character

    def _group(self) -> str:
        self._depth += 1
        if not self._pattern.startswith("?", self._at):
            return "("
        if not self._pattern.startswith("?:", self._at):  # look-around, or a named group
            raise _UnportableError
        self._at += 2
        return "(?:"

    def _class(self) -> str:
        text = "["
        if self._pattern.startswith("^", self._at):
            text += self._take()
        while (character := self._take()) != "]":
            if character == "[":  # a class of POSIX, or a nested one
                raise _UnportableError
            text += self._escape(in_class=True) if character == "\\" else character
        return f"{text}]"

    def _escape(self, *, in_class: bool) -> str:
        character = self._take()
        if characters := _CLASSES.get(character):
            return characters if in_class else f"[{characters}]"
        if characters := _CLASSES.get(character.lower()):
            if in_class:
                raise _UnportableError
            return f"[^{characters}]"
        if character in _UNSUPPORTED or character.isdigit():
            raise _UnportableError
        return f"\\{character}"


_DROPPED: Final = {
    "$anchor",
    "$comment",
    "$defs",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$recursiveAnchor",
    "$recursiveRef",
    "$schema",
    "$vocabulary",
    "additionalItems",
    "definitions",
    "dependencies",
    "nullable",
}

_MAPS: Final = ("properties", "patternProperties", "dependentSchemas")
_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_FLAGS: Final = ("additionalProperties", "items", "unevaluatedItems", "unevaluatedProperties")
_SCHEMAS: Final = ("not", "if", "then", "else", "contains", "propertyNames", *_FLAGS)

_TYPES: Final = ("array", "boolean", "integer", "null", "number", "object", "string")

_MAX_NOTE: Final = 200


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_names(value: Any) -> bool:
    return is_array(value) and all(isinstance(name, str) for name in value)


_CHECKS: Final[dict[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("title", "description", "format", "pattern"), _is_text),
    **dict.fromkeys(("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum"), _is_number),
    **dict.fromkeys(("maxLength", "minLength", "maxItems", "minItems", "maxProperties"), _is_count),
    **dict.fromkeys(("minProperties", "maxContains", "minContains"), _is_count),
    **dict.fromkeys(("deprecated", "readOnly", "writeOnly", "uniqueItems"), _is_flag),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    "enum": lambda value: is_array(value) and bool(value),
    "examples": is_array,
    "required": _is_names,
    "dependentRequired": lambda value: is_object(value) and all(map(_is_names, value.values())),
}
"""Checks of the values of keywords; one that fails is left out."""


class Subschemas:
    def __init__(self, root: Schema) -> None:
        self._root = root
        self._names: dict[str, str] = {}
        self._pending: deque[tuple[str, Any]] = deque()

    def definitions(self) -> dict[str, Schema]:
        made: dict[str, Schema] = {}
        while self._pending:
            name, target = self._pending.popleft()
            made[name] = self.copy(target)
        return made

    def copy(self, node: Any, depth: int = 0) -> Schema:
        if node is False:
            return {"not": {}}
        if not is_object(node) or depth > MAX_DEPTH:
            return {}
        node = _in_2020_12(node)
        copied = {
            word: self._copy_keyword(word, value, depth + 1)
            for word, value in node.items()
            if word not in _DROPPED
        }
        result: Schema = {word: value for word, value in copied.items() if value is not ABSENT}
        _fit_required(result)
        _fit_pattern(result)
        _fit_array(result)
        return _nullable(result) if node.get("nullable") is True else result

    def _copy_keyword(self, word: str, value: Any, depth: int) -> Any:
        """Return the value of a keyword in a copy, or `ABSENT` if it cannot be copied."""
        if word == "$ref":
            name = self._reference(value)
            return f"#/$defs/{name}" if name else ABSENT
        if word == "type":
            return _type_of(value) or ABSENT
        if word in _MAPS:
            return self._fields(word, value, depth) if is_object(value) else ABSENT
        if word in _LISTS:
            return [self.copy(child, depth) for child in value] if is_array(value) and value else ABSENT
        if word in _SCHEMAS:
            return value if isinstance(value, bool) and word in _FLAGS else self.copy(value, depth)
        check = _CHECKS.get(word)
        return value if check is None or check(value) else ABSENT

    def _fields(self, word: str, value: Schema, depth: int) -> Schema:
        fields = value if word != "properties" else {k: v for k, v in value.items() if v is not False}
        return {name: self.copy(child, depth) for name, child in fields.items()}

    def _reference(self, pointer: Any) -> str | None:
        if not isinstance(pointer, str) or not pointer.startswith("#"):
            return None
        if pointer not in self._names:
            target = resolve(self._root, pointer)
            if target is None:
                return None
            last = (to_tokens(pointer.removeprefix("#")) or ("root",))[-1]
            readable = re.sub(r"[^A-Za-z0-9_.-]+", "_", last)[:64].strip("_") or "definition"
            taken = self._names.values()
            name = readable if readable not in taken else f"{readable}_{len(self._names)}"
            self._names[pointer] = name
            self._pending.append((name, target))
        return self._names[pointer]


def _in_2020_12(node: Schema) -> Schema:
    """Return a subschema without the forms of older drafts."""
    if not any(word in node for word in ("items", "exclusiveMinimum", "exclusiveMaximum", "dependencies")):
        return node
    result = dict(node)
    if is_array(result.get("items")):
        prefix, rest = result.pop("items"), result.get("additionalItems", True)
        result.setdefault("prefixItems", prefix)
        result["items"] = rest
    for word, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(result.get(word), bool) and result.pop(word) and bound in result:
            result[word] = result.pop(bound)
    if is_object(needs := result.get("dependencies")):
        result.setdefault("dependentRequired", {k: v for k, v in needs.items() if is_array(v)})
        result.setdefault("dependentSchemas", {k: v for k, v in needs.items() if is_object(v)})
    return result


def _type_of(value: Any) -> str | list[str] | None:
    if isinstance(value, str):
        return value if value in _TYPES else None
    kinds = [kind for kind in dict.fromkeys(value) if kind in _TYPES] if _is_names(value) else []
    return kinds if len(kinds) > 1 else kinds[0] if kinds else None


def _fit_required(schema: Schema) -> None:
    """Leave only known names in `required`. An open object gets the others."""
    if "required" not in schema:
        return
    names: list[str] = list(dict.fromkeys(schema["required"]))
    fields: dict[str, Any] | None = schema.get("properties")
    if fields is None and schema.get("type") != "object":
        schema["required"] = names  # of a branch, whose fields are declared above it
        return
    known = dict(fields or {})
    if schema.get("additionalProperties") is not False:
        known.update({name: {} for name in names if name not in known})
        schema["properties"] = known
    schema["required"] = [name for name in names if name in known]


def _fit_pattern(schema: Schema) -> None:
    pattern: str | None = schema.get("pattern")
    if pattern is None:
        return
    if (portable := portable_pattern(pattern)) is not None:
        schema["pattern"] = portable
        return
    del schema["pattern"]
    note = clip(f"Must match the pattern {pattern}", _MAX_NOTE)
    schema["description"] = f"{schema['description']} {note}" if schema.get("description") else note


def _fit_array(schema: Schema) -> None:
    if schema.get("items") is False and is_array(prefix := schema.get("prefixItems")):
        schema.setdefault("maxItems", len(prefix))
        schema["items"] = {}
    elif isinstance(items := schema.get("items"), bool):
        schema["items"] = {} if items else {"not": {}}
    kinds = schema.get("type")
    if kinds == "array" or (is_array(kinds) and "array" in kinds):
        schema.setdefault("items", {})


def _nullable(schema: Schema) -> Schema:
    kinds = schema.get("type")
    if (
        kinds is None
        or "const" in schema
        or any(word in schema for word in ("$ref", "allOf", "anyOf", "oneOf"))
    ):
        described = {"description": schema.pop("description")} if "description" in schema else {}
        return {**described, "anyOf": [schema, {"type": "null"}]} if schema else described
    if kinds != "null" and "null" not in kinds:
        schema["type"] = [*(kinds if is_array(kinds) else [kinds]), "null"]
    if "enum" in schema and None not in schema["enum"]:
        schema["enum"] = [*schema["enum"], None]
    return schema

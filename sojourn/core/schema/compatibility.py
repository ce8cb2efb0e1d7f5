"""Check whether every value of one JSON Schema is also a value of another.

The check returns the reasons by field (SR-80 to SR-82). Source and target are compared as branches of one
type each. Every branch of the source must fit some branch of the target. A pair that comes up again inside
itself (a tree) is assumed to fit while it is compared. Types are compared, not sizes: bounds, lengths and
patterns of the target are left to the validation of the value. So is what no schema states, such as that a
text holds a decimal number.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Any

from sojourn.values.json_fault import MAX_DEPTH
from sojourn.values.json_value import Schema, is_array, is_object, json_type, resolve
from sojourn.values.text import count_noun, one_of

__all__ = ["MAX_MISMATCHES", "mismatches"]

MAX_MISMATCHES = 50

_MAX_STEPS = 10_000
_COMPOSED = ("$defs", "$ref", "allOf", "anyOf", "const", "discriminator", "oneOf")
_TAG = "discriminator"
_TEXT = {"type": "string"}
_ANY_TEXT = ("binary", "password", "path")
_TELLING_WORDS = {"object": ("properties",), "array": ("items", "prefixItems"), "string": ("format",)}

_Reason = tuple[str, str]  # the path of a field, and why it does not fit


class _TooLargeError(Exception):
    """The schemas take more work to compare than schemas that people write."""


def mismatches(source: Schema, target: Schema, *, lossless: bool) -> list[str]:
    """Return each reason that a value of the source does not fit the target.

    A reason has the form `field: why`. Empty when every value fits.

    Args:
        source: The schema of values as they are written: a type's schema in serialization mode, or a closed
            payload schema. A field that is required or has a default is always there.
        target: The schema of values as they are read: a type's schema in validation mode.
        lossless: Whether a field that the target does not declare, or that is written masked, is a reason.
    """
    try:
        found = _Comparison(source, target, lossless=lossless).fields(source, target, 0)
    except _TooLargeError:
        found = [("", "too large to compare")]
    return [f"{path or 'value'}: {why}" for path, why in dict.fromkeys(found)][:MAX_MISMATCHES]


class _Document:
    """A schema whose subschemas are expanded into branches."""

    def __init__(self, root: Schema) -> None:
        self.root = root
        self._steps = 0
        self._known: dict[int, tuple[Any, list[Schema]]] = {}

    def branches(self, node: Any) -> list[Schema]:
        """Return the branches of a subschema, one per type.

        The type is `None` for any type. Empty for `false`.
        """
        if id(node) not in self._known:  # keeps the node alive, so that its id stays unique
            found = [branch for each in self._expand(node, 0) for branch in _by_type(each)]
            self._known[id(node)] = node, found
        return self._known[id(node)][1]

    def _expand(self, node: Any, depth: int) -> list[Schema]:
        self.step()
        if depth > MAX_DEPTH:
            raise _TooLargeError
        if not is_object(node):
            return [] if node is False else [{}]
        own = {word: value for word, value in node.items() if word not in _COMPOSED}
        if "const" in node:
            own["enum"] = [node["const"]]
        choices = [[part] for part in node.get("allOf", ())]
        if "$ref" in node:
            choices.append([resolve(self.root, node["$ref"])])
        choices += [node[word] for word in ("anyOf", "oneOf") if word in node]
        found: list[Schema] = [{}]
        for parts in choices:
            branches = [branch for part in parts for branch in self._expand(part, depth + 1)]
            found = [self._join(left, right) for left in found for right in branches]
        if is_object(tagged := node.get(_TAG)) and (tag := tagged.get("propertyName")):
            own |= {_TAG: tag, "required": [*own.get("required", ()), tag]}
        return [self._join(each, own) for each in found]

    def _join(self, left: Schema, right: Schema) -> Schema:
        self.step()
        joined = {**left, **right, "required": [*left.get("required", ()), *right.get("required", ())]}
        if "properties" in joined:
            joined["properties"] = {**left.get("properties", {}), **right.get("properties", {})}
        return joined

    def step(self) -> None:
        self._steps += 1
        if self._steps > _MAX_STEPS:
            raise _TooLargeError


class _Comparison:
    def __init__(self, source: Schema, target: Schema, *, lossless: bool) -> None:
        self.source = _Document(source)
        self.target = _Document(target)
        self.lossless = lossless
        self._known: dict[tuple[int, int], list[_Reason]] = {}

    def fields(self, source: Any, target: Any, depth: int) -> list[_Reason]:
        key = id(source), id(target)
        if key in self._known:
            return self._known[key]
        self.source.step()
        if depth > MAX_DEPTH:
            raise _TooLargeError
        before = len(self._known)
        self._known[key] = []  # assumed to fit, until a part does not
        targets = self.target.branches(target)
        found = [why for each in self.source.branches(source) for why in self._branch(each, targets, depth)]
        if found:
            since = enumerate(
                self._known.items()
            )  # pairs found to fit since then may depend on the assumption
            self._known = {pair: why for at, (pair, why) in since if at < before or why}
            self._known[key] = found[:MAX_MISMATCHES]
        return found[:MAX_MISMATCHES]

    def _branch(self, source: Schema, targets: list[Schema], depth: int) -> list[_Reason]:
        if self.lossless and source.get("writeOnly"):
            return [("", "is masked when it is written")]
        if "enum" in source:
            refused = [value for value in source["enum"] if not any(_takes(each, value) for each in targets)]
            return [("", f"{one_of(refused)} does not fit {_phrases(targets)}")] if refused else []
        candidates: list[list[_Reason]] = []
        for target in filter(lambda each: _is_alike(source, each), targets):
            reasons = list(self._inside(source, target, depth + 1))
            if not reasons:
                return []
            if not any(path == target.get(_TAG) for path, _ in reasons):
                candidates.append(reasons)
        mismatched = [("", f"{_phrase(source)} does not fit {_phrases(targets)}")]
        return candidates[0] if len(candidates) == 1 else mismatched

    def _inside(self, source: Schema, target: Schema, depth: int) -> Iterator[_Reason]:
        if target["type"] == "object":
            yield from _absent(source, target)
            yield from self._properties(source, target, depth)
        elif target["type"] == "array":
            yield from self._items(source, target, depth)

    def _properties(self, source: Schema, target: Schema, depth: int) -> Iterator[_Reason]:
        written, read = source.get("properties", {}), target.get("properties", {})
        rest, open_to = _rest(source), _rest(target)
        # A field that the source does not name may have the name of a field of the target.
        unnamed = [(name, rest) for name in [*read, "*"] if name not in written and rest is not False]
        for name, field in [*written.items(), *unnamed]:
            if name in read or open_to is not False:
                yield from _at(name, self.fields(field, read.get(name, open_to), depth))
            elif self.lossless and not (is_object(field) and field.get("readOnly")):
                yield name, f"unknown to {_phrase(target)}"  # no caller sent a computed field
        if "propertyNames" in target:
            names, known = ({"allOf": [_TEXT, each.get("propertyNames", True)]} for each in (source, target))
            free = [names] if rest is not False else []
            reasons = self.fields({"anyOf": [{"enum": [*written]}, *free]}, known, depth)
            yield from (("*", f"name: {why}") for _, why in reasons)

    def _items(self, source: Schema, target: Schema, depth: int) -> Iterator[_Reason]:
        if "prefixItems" in target and source.get("minItems", 0) < target.get("minItems", 0):
            yield "", f"may hold fewer than {count_noun(target['minItems'], 'item')}"
            return
        most = target.get("maxItems", math.inf) if "prefixItems" in target else math.inf
        known = max(len(each.get("prefixItems", ())) for each in (source, target))
        for index in range(known + 1):
            if (item := _item(source, index, source.get("maxItems", math.inf))) is not False:
                step = f"[{index}]" if index < known else "[]"
                yield from _at(step, self.fields(item, _item(target, index, most), depth))


def _absent(source: Schema, target: Schema) -> Iterator[_Reason]:
    written, always = source.get("properties", {}), source.get("required", ())
    for name in dict.fromkeys(target.get("required", ())):
        field = written.get(name)
        if name not in written and _rest(source) is False:
            yield name, f"missing in {_phrase(source)}"
        elif name not in always and not (is_object(field) and "default" in field):
            yield name, f"may be absent in {_phrase(source)}"


def _at(step: str, reasons: Iterable[_Reason]) -> Iterator[_Reason]:
    for path, why in reasons:
        yield (f"{step}.{path}" if path and not path.startswith("[") else f"{step}{path}"), why


def _by_type(branch: Schema) -> list[Schema]:
    implied = (kind for kind, words in _TELLING_WORDS.items() if any(word in branch for word in words))
    named = branch.get("type", next(implied, None))
    return [{**branch, "type": each} for each in (named if is_array(named) else [named])]


def _form(branch: Schema) -> set[tuple[str, str]]:
    """Return the formats that a text must have, without those that any text has."""
    words = ("format", "contentMediaType")
    return {(word, branch[word]) for word in words if word in branch and branch[word] not in _ANY_TEXT}


def _is_alike(source: Schema, target: Schema) -> bool:
    if "enum" in target:
        return False
    kinds = source["type"], target["type"]
    fits = kinds[0] == kinds[1] or kinds == ("integer", "number")
    return kinds[1] is None or (fits and _form(target) <= _form(source))


def _takes(target: Schema, value: Any) -> bool:
    kind = json_type(value)
    if "enum" in target:
        return any(json_type(each) == kind and each == value for each in target["enum"])
    return target["type"] is None or (kind not in {"object", "array"} and _is_alike({"type": kind}, target))


def _rest(branch: Schema) -> Any:
    """Return the schema of undeclared fields, or False if they are not allowed."""
    patterns = list(branch.get("patternProperties", {}).values())
    closed = bool(patterns) or "properties" in branch
    rest = branch.get("additionalProperties", branch.get("unevaluatedProperties", not closed))
    return {"anyOf": [*patterns, rest]} if patterns else rest


def _item(branch: Schema, index: int, most: float) -> Any:
    items = [*branch.get("prefixItems", ()), branch.get("items", True)]
    return items[min(index, len(items) - 1)] if index < most else False


def _phrases(branches: list[Schema]) -> str:
    return " or ".join(dict.fromkeys(map(_phrase, branches))) or "here"


def _phrase(branch: Schema) -> str:
    if "enum" in branch:
        return f"enum [{one_of(branch['enum'])}]"
    if "properties" in branch and branch.get("title"):
        return str(branch["title"])
    if branch.get("prefixItems"):
        return f"array of {len(branch['prefixItems'])}"
    return " ".join([*sorted(word for _, word in _form(branch)), branch["type"] or "anything"])

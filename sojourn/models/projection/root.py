"""The root of a tool's arguments as one plain object.

Providers take no `oneOf`, `anyOf`, `allOf`, `not`, `if` and no reference at the root. What applies to the
arguments as a whole is merged into one object, and each rule that an object cannot say becomes a sentence.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sojourn.values.json_value import Schema, is_array, is_object, json_type, resolve
from sojourn.values.text import clip

__all__ = ["Root", "merge_root"]

_COMBINATORS: Final = {
    "$ref",
    "allOf",
    "anyOf",
    "const",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "discriminator",
    "else",
    "enum",
    "if",
    "not",
    "oneOf",
    "then",
    "unevaluatedProperties",
}

_MAX_PARTS: Final = 200

_MAX_RULE: Final = 400

_MAX_RULES: Final = 600


@dataclass
class Root:
    properties: dict[str, Any] = field(default_factory=dict[str, Any])
    required: list[str] = field(default_factory=list[str])
    is_closed: bool = False
    rules: list[str] = field(default_factory=list[str])

    @property
    def sentences(self) -> str:
        return clip(" ".join(dict.fromkeys(self.rules)), _MAX_RULES)


def merge_root(schema: Schema) -> tuple[Schema, str]:
    """Return a schema whose root is a plain object, and its other rules as sentences."""
    root = _Merger(schema).merge(schema, frozenset())
    kept = {word: value for word, value in schema.items() if word not in _COMBINATORS}
    kept |= {"type": "object", "properties": root.properties}
    kept.pop("required", None)
    if root.required:
        kept["required"] = root.required
    if root.is_closed and kept.get("additionalProperties") is not False:
        kept["additionalProperties"] = False
    return kept, root.sentences


class _Merger:
    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._left = _MAX_PARTS

    def merge(self, node: Any, above: frozenset[int]) -> Root:
        self._left -= 1
        if not is_object(node) or id(node) in above or self._left < 0:
            return Root()
        above = above | {id(node)}
        root = _own(node)
        if isinstance(reference := node.get("$ref"), str):
            root = _both(root, self.merge(resolve(self._schema, reference), above))
        for branch in _list(node.get("allOf")):
            root = _both(root, self.merge(branch, above))
        for word in ("oneOf", "anyOf"):
            if branches := [each for each in _list(node.get(word)) if self._may_be_object(each)]:
                root = self._with_union(root, word, branches, above)
        root = self._with_conditions(root, node, above)
        root.rules += _plain_rules(node)
        return root

    def _with_union(self, root: Root, word: str, branches: Sequence[Any], above: frozenset[int]) -> Root:
        options = [self.merge(branch, above) for branch in branches]
        joined = _both(root, _either(options))
        listed = list(dict.fromkeys(needs for option in options if (needs := _needs(option))))
        if len(branches) > 1 and listed:
            which = "exactly one" if word == "oneOf" else "at least one"
            joined.rules.append(clip(f"Give {which} of these: {'; or '.join(listed)}.", _MAX_RULE))
        return joined

    def _with_conditions(self, root: Root, node: Schema, above: frozenset[int]) -> Root:
        if is_object(condition := node.get("if")):
            when = self.merge(condition, above)
            for word, lead in (("then", "If"), ("else", "Unless")):
                if is_object(node.get(word)):
                    what = self.merge(node[word], above)
                    root = _both(root, _optional(what))
                    root.rules.append(_condition(lead, _needs(when), _needs(what), node))
            root = _both(root, _optional(when))
        for name, branch in _map(node.get("dependentSchemas")):
            what = self.merge(branch, above)
            root = _both(root, _optional(what))
            root.rules.append(_condition("With", f"`{name}`", _needs(what), branch))
        return root

    def _may_be_object(self, branch: Any) -> bool:
        for _ in range(20):
            if not is_object(branch):
                return branch is not False
            kinds = branch.get("type")
            if kinds is not None and kinds != "object" and not (is_array(kinds) and "object" in kinds):
                return False
            if not isinstance(branch.get("$ref"), str):
                return True
            branch = resolve(self._schema, branch["$ref"])
        return False


def _own(node: Schema) -> Root:
    fields = {name: child for name, child in _map(node.get("properties")) if child is not False}
    required = [name for name in _list(node.get("required")) if isinstance(name, str)]
    is_closed = node.get("additionalProperties") is False or node.get("unevaluatedProperties") is False
    return Root(fields, list(dict.fromkeys(required)), is_closed and "patternProperties" not in node)


def _both(one: Root, other: Root) -> Root:
    properties = dict(one.properties)
    for name, schema in other.properties.items():
        properties[name] = _all_of(properties[name], schema) if name in properties else schema
    required = list(dict.fromkeys([*one.required, *other.required]))
    return Root(properties, required, one.is_closed or other.is_closed, [*one.rules, *other.rules])


def _either(options: Sequence[Root]) -> Root:
    properties: dict[str, Any] = {}
    for name in dict.fromkeys(name for option in options for name in option.properties):
        schemas = [option.properties[name] for option in options if name in option.properties]
        properties[name] = _any_of(schemas)
    required = [name for name in options[0].required if all(name in each.required for each in options)]
    rules = [rule for option in options for rule in option.rules]
    return Root(properties, required, all(option.is_closed for option in options), rules)


def _optional(part: Root) -> Root:
    fields = {name: _drop_unnamed(schema) for name, schema in part.properties.items()}
    return Root(fields, rules=part.rules)


def _drop_unnamed(schema: Any) -> Any:
    return {} if is_object(schema) and ({"const", "enum", "not"} & schema.keys()) else schema


def _all_of(one: Any, other: Any) -> Any:
    if one == other or other in ({}, True):
        return one
    if one in ({}, True):
        return other
    if (
        is_object(one)
        and is_object(other)
        and all(one[word] == other[word] for word in one.keys() & other.keys())
    ):
        return {**one, **other}
    return {"allOf": [one, other]}


def _any_of(schemas: Sequence[Any]) -> Any:
    distinct: list[Any] = []
    for schema in schemas:
        if schema not in distinct:
            distinct.append(schema)
    if len(distinct) == 1:
        return distinct[0]
    if any(schema in ({}, True) for schema in distinct):
        return {}
    values = [_values(schema) for schema in distinct]
    if all(values):
        listed = list({json.dumps(value): value for each in values for value in each or ()}.values())
        kinds = {json_type(value) for value in listed}
        return {"type": kinds.pop(), "enum": listed} if len(kinds) == 1 else {"enum": listed}
    return {"anyOf": distinct}


def _values(schema: Any) -> list[Any] | None:
    if not is_object(schema):
        return None
    if "const" in schema:
        return [schema["const"]]
    return schema["enum"] if is_array(schema.get("enum")) else None


def _needs(part: Root) -> str:
    """Return the condition of a part, such as `` `kind` is "circle" ``, or nothing."""
    fixed = {
        name: values[0]
        for name, schema in part.properties.items()
        if (values := _values(schema)) and len(values) == 1
    }
    tags = [f"`{name}` is {_json(value)}" for name, value in fixed.items()]
    others = [f"`{name}`" for name in part.required if name not in fixed]
    return f"{' and '.join(tags)}, with {', '.join(others)}" if tags and others else ", ".join(tags + others)


def _condition(lead: str, when: str, what: str, node: Any) -> str:
    if when and what:
        verb = "give" if lead != "With" else "also give"
        return clip(f"{lead} {when}: {verb} {what}.", _MAX_RULE)
    return _verbatim(node)


def _plain_rules(node: Schema) -> list[str]:
    """Return the rules that need no merge: fields together, allowed values."""
    rules = [
        f"With `{name}`, also give {_join(needed)}."
        for word in ("dependentRequired", "dependencies")
        for name, needed in _map(node.get(word))
        if is_array(needed) and needed
    ]
    if "not" in node:
        rules.append(_prohibition(node["not"]))
    rules += [
        f"The arguments are one of these: {clip(_json(node[word]), _MAX_RULE)}."
        for word in ("const", "enum")
        if word in node
    ]
    return rules


def _prohibition(rule: Any) -> str:
    names = _list(rule.get("required")) if is_object(rule) and set(rule) <= {"required", "type"} else []
    if len(names) == 1:
        return f"Do not give `{names[0]}`."
    return f"Do not give {_join(names, 'and')} together." if names else f"Not allowed: {_verbatim(rule)}"


def _verbatim(rule: Any) -> str:
    words = ("if", "then", "else")
    if is_object(rule) and "if" in rule:
        rule = {word: rule[word] for word in words if word in rule}
    return f"arguments that fit the JSON Schema {clip(_json(rule), _MAX_RULE)}."


def _join(names: Iterable[Any], word: str = "") -> str:
    quoted = [f"`{name}`" for name in names]
    return f" {word} ".join(quoted) if word else ", ".join(quoted)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _list(value: Any) -> list[Any]:
    return value if is_array(value) else []


def _map(value: Any) -> Iterable[tuple[str, Any]]:
    return value.items() if is_object(value) else ()

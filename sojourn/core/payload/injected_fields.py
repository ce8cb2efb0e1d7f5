"""Injected fields, which planners do not see (SR-41 to SR-49); `masking` keeps their values out of results."""

from collections.abc import Collection, Sequence
from typing import Any

from sojourn.contracts.tool_error import FieldIssue
from sojourn.core.values.json_value import is_array, is_object
from sojourn.core.values.pointer import Schema, resolve, to_tokens

__all__ = ["advertised", "split"]


def advertised(schema: Schema, injected: Collection[str]) -> Schema:
    """A payload's schema for planners: without injected fields, and without definitions that only they use.

    Raises:
        ValueError: A field is not among the payload's own.
    """
    top = schema
    if "properties" not in schema and isinstance(found := resolve(schema, schema.get("$ref", "")), dict):
        top = {**{word: value for word, value in schema.items() if word != "$ref"}, **found}
    if unknown := [name for name in injected if name not in top.get("properties", {})]:
        raise ValueError(f"the payload has no field {unknown[0]!r} to inject")
    if not injected:
        return schema
    shown = {**top, "properties": {n: s for n, s in top["properties"].items() if n not in injected}}
    shown["required"] = [name for name in top.get("required", []) if name not in injected]
    if not shown["required"]:
        del shown["required"]
    for word in ("example", "examples", "default"):
        shown.pop(word, None)  # an example of the whole payload would contain hidden fields
    return _pruned(shown)


def split(
    issues: Sequence[FieldIssue], injected: Collection[str]
) -> tuple[list[FieldIssue], list[FieldIssue]]:
    """The issues that a planner can repair, and those of injected fields, which it cannot."""
    hidden = [issue for issue in issues if _first(issue) in injected]
    return [issue for issue in issues if _first(issue) not in injected], hidden


def _first(issue: FieldIssue) -> str:
    tokens = to_tokens(issue.field)
    return tokens[0] if tokens else ""


def _pruned(schema: Schema) -> Schema:
    """The schema without unused definitions."""
    definitions = schema.get("$defs", {})
    used: set[str] = set()
    pending: list[Any] = [{word: value for word, value in schema.items() if word != "$defs"}]
    while pending:
        node = pending.pop()
        if is_object(node):
            name = str(node.get("$ref", "")).removeprefix("#/$defs/")
            if name in definitions and name not in used:
                used.add(name)
                pending.append(definitions[name])
            pending.extend(node.values())
        elif is_array(node):
            pending.extend(node)
    rest = {word: value for word, value in schema.items() if word != "$defs"}
    kept = {name: value for name, value in definitions.items() if name in used}
    return {**rest, "$defs": kept} if kept else rest

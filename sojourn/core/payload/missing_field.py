"""What a field that is missing has to be, told with the fault: a caller has not seen it refused yet."""

from typing import Any

from sojourn.contracts.retry_hint import FieldIssue
from sojourn.core.schema.issues import MAX_ALLOWED, MAX_TEXT, shortened, type_names
from sojourn.core.values.json_value import is_array, json_type
from sojourn.core.values.pointer import Schema, expand, locate, to_tokens

__all__ = ["with_expected"]

_BOUNDS = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum"),
}


def with_expected(issue: FieldIssue, schema: Schema) -> FieldIssue:
    """The fault with the enum, type, pattern, format and range of the field; any but a missing field as it is.

    Args:
        issue: The fault.
        schema: Of the whole payload.
    """
    if issue.constraint != "missing_field" or issue.allowed is not None:
        return issue
    said = _said(schema, to_tokens(issue.field))
    allowed: Any = [said["const"]] if "const" in said else said.get("enum")
    if is_array(allowed):
        return issue.model_copy(update={"allowed": shortened(allowed[:MAX_ALLOWED])})
    types = type_names(said.get("type"))
    least, most = _BOUNDS.get(types[0] if len(types) == 1 else "", ("", ""))
    found = {
        "expected_type": _kind(types, said),
        "pattern": _text(said.get("pattern")),
        "format": _text(said.get("format")),
        "minimum": _number(said.get(least)),
        "maximum": _number(said.get(most)),
    }
    return issue.model_copy(update={name: value for name, value in found.items() if value is not None})


def _said(schema: Schema, tokens: tuple[str, ...]) -> Schema:
    """What the parts of a field's schema say together; nothing where alternatives leave it open, but for null."""
    said: Schema = {}
    for found in locate(schema, tokens):
        for part in expand(schema, found):
            branches = [branch for word in ("anyOf", "oneOf") for branch in part.get(word, ())]
            if sum(branch != {"type": "null"} for branch in branches) > 1 or "if" in part or "not" in part:
                return {}
            if part != {"type": "null"}:
                said = {**part, **said}
    return said


def _kind(types: list[str], said: Schema) -> str | None:
    """The type or types, and bounds that are not in the range themselves: `integer above 0`."""
    beyond = [
        f"{side} {said[word]}"
        for word, side in (("exclusiveMinimum", "above"), ("exclusiveMaximum", "below"))
        if types in (["integer"], ["number"]) and _number(said.get(word)) is not None
    ]
    return " ".join([" or ".join(types), " and ".join(beyond)]).strip()[:MAX_TEXT] or None


def _text(value: Any) -> str | None:
    return value[:MAX_TEXT] if isinstance(value, str) else None


def _number(value: Any) -> float | None:
    if json_type(value) not in ("integer", "number"):
        return None
    try:
        return float(value)
    except OverflowError:
        return None

"""What a missing field has to be, stated with the issue: the caller has not seen a value refused yet."""

from typing import Any

from sojourn.contracts.tool_error import FieldIssue
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
    """The issue with the enum, type, pattern, format and range of the field; another issue than a missing field is unchanged.

    Args:
        issue: The issue.
        schema: The schema of the whole payload.
    """
    if issue.constraint != "missing_field" or issue.allowed is not None:
        return issue
    keywords = _keywords(schema, to_tokens(issue.field))
    allowed: Any = [keywords["const"]] if "const" in keywords else keywords.get("enum")
    if is_array(allowed):
        return issue.model_copy(update={"allowed": shortened(allowed[:MAX_ALLOWED])})
    types = type_names(keywords.get("type"))
    least, most = _BOUNDS.get(types[0] if len(types) == 1 else "", ("", ""))
    found = {
        "expected_type": _kind(types, keywords),
        "pattern": _text(keywords.get("pattern")),
        "format": _text(keywords.get("format")),
        "minimum": _number(keywords.get(least)),
        "maximum": _number(keywords.get(most)),
    }
    return issue.model_copy(update={name: value for name, value in found.items() if value is not None})


def _keywords(schema: Schema, tokens: tuple[str, ...]) -> Schema:
    """The keywords of a field's subschemas together; empty where alternatives other than null leave it open."""
    keywords: Schema = {}
    for found in locate(schema, tokens):
        for part in expand(schema, found):
            branches = [branch for word in ("anyOf", "oneOf") for branch in part.get(word, ())]
            if sum(branch != {"type": "null"} for branch in branches) > 1 or "if" in part or "not" in part:
                return {}
            if part != {"type": "null"}:
                keywords = {**part, **keywords}
    return keywords


def _kind(types: list[str], keywords: Schema) -> str | None:
    """The type or types, with exclusive bounds, which `minimum` and `maximum` cannot state: `integer above 0`."""
    beyond = [
        f"{side} {keywords[word]}"
        for word, side in (("exclusiveMinimum", "above"), ("exclusiveMaximum", "below"))
        if types in (["integer"], ["number"]) and _number(keywords.get(word)) is not None
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

"""Describe the value that a missing field needs."""

from collections.abc import Sequence
from typing import Any

from sojourn.contracts.tool_error import FieldIssue
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.schema.issues import MAX_ALLOWED, MAX_TEXT, ONLY_ONE, shorten_choices, type_names
from sojourn.core.schema.validate import Validator
from sojourn.values.json_value import Schema, expand, is_array, json_type, locate, to_tokens
from sojourn.values.text import clip, field_name, one_of, plain

__all__ = ["describe_expected", "question_about"]

_BOUNDS = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum"),
}


def describe_expected(issue: FieldIssue, schema: Schema) -> FieldIssue:
    """Add the enum, type, pattern, format and range of a missing field to its issue.

    Another issue than a missing field is returned unchanged.
    """
    if issue.constraint != "missing_field" or issue.allowed is not None:
        return issue
    keywords = _keywords(schema, to_tokens(issue.field))
    allowed: Any = [keywords["const"]] if "const" in keywords else keywords.get("enum")
    if is_array(allowed):
        return issue.model_copy(update={"allowed": shorten_choices(allowed[:MAX_ALLOWED])})
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
    # Empty if alternatives other than null leave the field open.
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
    # `minimum` and `maximum` cannot state exclusive bounds.
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


_MAX_QUESTION = 300
_MAX_ASKED = 3
_MAX_DESCRIPTION = 80


def question_about(spec: ToolSpec, issues: Sequence[FieldIssue], validator: Validator) -> str | None:
    """Return one question about at most three fields.

    None when a person could not help.
    """
    pointers = list(
        dict.fromkeys(issue.field for issue in issues if issue.field and issue.constraint != "unknown_field")
    )
    if not pointers:
        return None
    zoned = {issue.field for issue in issues if issue.format in ("date-time", "time")}
    fields = [_describe(spec, field, validator, zoned=field in zoned) for field in pointers[:_MAX_ASKED]]
    if any(issue.constraint == ONLY_ONE for issue in issues):
        return (
            clip(f"Which one of {' and '.join(fields)} is it, and what should it be", _MAX_QUESTION - 1) + "?"
        )
    listed = fields[0] if len(fields) == 1 else f"{', '.join(fields[:-1])} and {fields[-1]}"
    return clip(f"What should {listed} be", _MAX_QUESTION - 1) + "?"


def _describe(spec: ToolSpec, pointer: str, validator: Validator, *, zoned: bool) -> str:
    tokens = to_tokens(pointer)
    path = ".".join(tokens).replace(".0", "[]")
    parts = [part for each in locate(validator.schema, tokens) for part in expand(validator.schema, each)]
    described = spec.payload.field_descriptions.get(path) or next(
        filter(None, (part.get("description") for part in parts)), ""
    )
    choices = next((part["enum"] for part in parts if "enum" in part), None)
    about = [plain(str(described).split(". ")[0].rstrip("."), 80)] if described else []
    about += [f"one of: {one_of(choices)}"] if choices else []
    about += ["with its time zone"] if zoned else []
    return f"{field_name(pointer)} ({'; '.join(about)})" if about else field_name(pointer)

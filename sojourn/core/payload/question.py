"""One short question for a person who can supply what a call lacks (SR-116, SR-145)."""

from collections.abc import Sequence

from sojourn.contracts.tool_error import FieldIssue
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.schema.issues import ONLY_ONE
from sojourn.core.schema.validate import Validator
from sojourn.core.values.pointer import expand, locate, to_tokens
from sojourn.core.values.text import clip, field_name, one_of, plain

__all__ = ["question_about"]

_MAX_QUESTION = 300
_MAX_ASKED = 3
_MAX_DESCRIPTION = 80


def question_about(spec: ToolSpec, issues: Sequence[FieldIssue], validator: Validator) -> str | None:
    """One question about at most three fields; None when a person could not help."""
    pointers = list(
        dict.fromkeys(issue.field for issue in issues if issue.field and issue.constraint != "unknown_field")
    )
    if not pointers:
        return None
    zoned = {issue.field for issue in issues if issue.format in ("date-time", "time")}
    fields = [_described(spec, field, validator, zoned=field in zoned) for field in pointers[:_MAX_ASKED]]
    if any(issue.constraint == ONLY_ONE for issue in issues):
        return (
            clip(f"Which one of {' and '.join(fields)} is it, and what should it be", _MAX_QUESTION - 1) + "?"
        )
    listed = fields[0] if len(fields) == 1 else f"{', '.join(fields[:-1])} and {fields[-1]}"
    return clip(f"What should {listed} be", _MAX_QUESTION - 1) + "?"


def _described(spec: ToolSpec, pointer: str, validator: Validator, *, zoned: bool) -> str:
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

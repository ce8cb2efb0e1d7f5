"""Mend a refused payload where that is safe: it says the same as before, and nothing in it is guessed.

`hint.example_input` validates, but it may hold what nobody chose: a value from the author's
example, the first word of an enum, a number made to fit. So a value of it is taken only where it
says what was sent in another form. What is absent comes from a person's answer, from the
planner's own defaults or from a default in the schema; a required id is never made up.
"""

import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from sojourn.contracts.retry_hint import FieldIssue, RetryHint
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.payload.coerce import meanings
from sojourn.core.payload.derived_example import put
from sojourn.core.values.json_value import is_array, is_object
from sojourn.core.values.pointer import ABSENT, expand, locate, to_tokens, value_at
from sojourn.core.values.text import closest_name

__all__ = ["RepairedPayload", "issues_in_hint", "name_of", "repair_payload"]

_SPELLING = 0.9
"""How alike a word and the one meant are: `offlne` and `offline`, but not `inactive` and `active`."""

_LEFT_OUT: Any = object()


@dataclass(frozen=True, slots=True)
class RepairedPayload:
    """A payload as far as it could be mended."""

    payload: dict[str, Any]
    """What was sent, with what is settled."""
    missing: list[str]
    """Fields that only a person can settle, by name; nested ones by JSON pointer. Empty when it may be sent."""


def repair_payload(
    hint: RetryHint,
    sent: Mapping[str, Any],
    *,
    spec: ToolSpec | None = None,
    answers: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> RepairedPayload:
    """What was sent with its faults mended, and what of them is left for a person.

    An answer settles any fault, unless it repeats what was refused; a default only fills what is
    absent, since it must not quietly replace what somebody said. Else only the form is mended:
    `"5"` for 5, the case of a word, a field's name written otherwise. For a tool that only reads,
    where a wrong guess costs one call, a misspelt word, a number out of range and a field that
    the tool does not know are mended too.

    Args:
        hint: Why it was refused.
        sent: The payload that was refused; left as it is.
        spec: The tool, which says what it does to the world; unknown is taken as a change.
        answers: A person's values by field.
        defaults: What a field is when nobody says.
    """
    answers, defaults = _named(answers or {}), defaults or {}
    reads = spec is not None and spec.trusted and spec.annotations.read_only is True
    payload: dict[str, Any] = deepcopy(dict(sent))
    issues, example = issues_in_hint(hint, sent), hint.example_input
    unknown = [issue for issue in issues if issue.constraint == "unknown_field"]
    # First, since a field that is missing may only have another name.
    missing = [name_of(issue) for issue in unknown if not _is_renamed(payload, issue, example, reads=reads)]
    for issue in issues:
        tokens, name = to_tokens(issue.field), name_of(issue)
        parent, was = value_at(payload, tokens[:-1]), value_at(payload, tokens)
        known = issue in unknown or (issue.constraint == "missing_field" and was is not ABSENT)
        if known or not tokens or not (is_object(parent) or is_array(parent)):
            continue
        value = answers.get(name, ABSENT)
        if value is ABSENT or value == was:
            value = (
                _determined(spec, name, tokens, defaults)
                if was is ABSENT
                else _same_value(issue, was, example, reads=reads)
            )
        if value is _LEFT_OUT and is_object(parent):
            del parent[tokens[-1]]
        elif value is ABSENT or value is _LEFT_OUT:
            missing.append(name)
        else:
            put(parent, tokens[-1], value)
    for name, value in answers.items():
        _put_new(spec, payload, to_tokens(name) if name.startswith("/") else (name,), value)
    return RepairedPayload(payload, list(dict.fromkeys(missing)))


def issues_in_hint(hint: RetryHint, sent: Mapping[str, Any]) -> list[FieldIssue]:
    """Every fault that a hint names; one that only gives an example finds fault with what differs."""
    told = {to_tokens(issue.field)[-1] for issue in hint.issues if issue.field}
    absent = [
        FieldIssue(field=f"/{name}", constraint="missing_field")
        for name in hint.missing_fields
        if name not in told
    ]
    if told or absent or hint.example_input is None:
        return [*hint.issues, *absent]
    differing = [name for name, value in hint.example_input.items() if sent.get(name, ABSENT) != value]
    return [FieldIssue(field=f"/{name}", constraint="rejected") for name in differing]


def name_of(issue: FieldIssue) -> str:
    """The name of a faulty field; the pointer of a nested one."""
    tokens = to_tokens(issue.field)
    return tokens[0] if len(tokens) == 1 else issue.field


def _determined(
    spec: ToolSpec | None, name: str, tokens: tuple[str, ...], defaults: Mapping[str, Any]
) -> Any:
    """What an absent field is when nobody says: by the planner, else by the schema; or `ABSENT`."""
    if name in defaults or spec is None:
        return defaults.get(name, ABSENT)
    schema = spec.payload.json_schema
    parts = [part for found in locate(schema, tokens) for part in expand(schema, found)]
    return next((part[word] for part in parts for word in ("const", "default") if word in part), ABSENT)


def _named(answers: Mapping[str, Any]) -> dict[str, Any]:
    """The answers by the names that `name_of` gives: a field of the payload itself may have been told by its pointer."""
    return {
        to_tokens(name)[0] if name.startswith("/") and name.count("/") == 1 else name: value
        for name, value in answers.items()
    }


def _put_new(spec: ToolSpec | None, payload: dict[str, Any], tokens: tuple[str, ...], value: Any) -> None:
    """Take a value that nobody asked for where the tool has such a field, and it is not there."""
    parent = value_at(payload, tokens[:-1])
    known = spec is not None and locate(spec.payload.json_schema, tokens)
    if known and is_object(parent) and tokens[-1] not in parent:
        parent[tokens[-1]] = deepcopy(value)


def _is_renamed(payload: dict[str, Any], issue: FieldIssue, example: Any, *, reads: bool) -> bool:
    """Move an unknown field's value to the name that was meant, or leave it out; whether that may be."""
    *place, name = to_tokens(issue.field) or ("",)
    parent, mended = value_at(payload, place), value_at(example, place)
    if not is_object(parent) or name not in parent:
        return True
    value = parent[name]
    names = [key for key in mended if key not in parent and mended[key] == value] if is_object(mended) else []
    meant = closest_name(name, names)
    if meant is not None and (reads or _letters(meant) == _letters(name)):
        parent[meant] = parent.pop(name)
        return True
    if reads:
        del parent[name]
    return reads


def _same_value(issue: FieldIssue, was: Any, example: Any, *, reads: bool) -> Any:
    """The example's value where it is what was sent in another form, `_LEFT_OUT` for a null, or `ABSENT`."""
    offered = value_at(example, to_tokens(issue.field))
    if offered is ABSENT:
        return _LEFT_OUT if was is None and example is not None else ABSENT
    if not any(_json(offered) == _json(reading) for reading in meanings(issue, was)):
        return ABSENT
    letters, others = _letters(was), _letters(offered)
    match issue.constraint:
        case "invalid_field_type":
            same = True
        case "invalid_range":
            same = reads
        case "invalid_format" if issue.format == "date":
            same = letters.startswith(others)
        case "invalid_format" if issue.format in ("date-time", "time"):
            same = reads  # a zone or an hour is taken for granted
        case "invalid_enum_value" if reads:
            same = SequenceMatcher(None, letters, others).ratio() > _SPELLING
        case _:
            same = letters == others
    return offered if same else ABSENT


def _letters(value: Any) -> str:
    return "".join(c for c in (value if isinstance(value, str) else _json(value)).casefold() if c.isalnum())


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)

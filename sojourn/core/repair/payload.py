"""Repair a refused payload if that is safe.

`hint.example_input` is valid, but it may hold values that no one chose. So a value of it is used only if it
is the value sent, in another form. A required id is never invented.
"""

import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from sojourn.contracts.tool_error import FieldIssue, RetryHint
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.payload.coerce import keeps_meaning, letters, list_readings, may_be_misnamed
from sojourn.core.payload.invented import set_value
from sojourn.core.schema.issues import ONLY_ONE
from sojourn.values.json_value import ABSENT, expand, is_array, is_object, locate, to_tokens, value_at
from sojourn.values.text import closest_name

__all__ = ["RepairedPayload", "issues_in_hint", "name_of", "repair_payload"]

_LEFT_OUT: Any = object()


@dataclass(frozen=True, slots=True)
class RepairedPayload:
    """A payload after its repair, and what it still lacks."""

    payload: dict[str, Any]
    missing: list[str]
    """Fields that only a person can supply, by name, nested ones by JSON pointer; empty when the payload may be sent."""


def repair_payload(
    hint: RetryHint,
    sent: Mapping[str, Any],
    *,
    spec: ToolSpec | None = None,
    answers: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> RepairedPayload:
    """Return the payload with its issues repaired, and the fields left for a person.

    An answer repairs any issue, unless it repeats the refused value. A default only fills an absent field,
    since it must not silently replace a value that was sent. Otherwise only the form is repaired: `"5"` for
    5, the case of a word, the spelling of a field's name. For a read-only tool a wrong guess costs one call.
    So a misspelt word, a number out of range and an unknown field are repaired too.
    """
    answers, defaults = _name_answers(answers or {}), defaults or {}
    chosen = [issue for issue in hint.issues if issue.constraint == ONLY_ONE and _is_given(answers, issue)]
    invented = [to_tokens(each) for each in hint.invented]
    reads = spec is not None and spec.trusted and spec.annotations.read_only is True
    payload: dict[str, Any] = deepcopy(dict(sent))
    issues, example = issues_in_hint(hint, sent), hint.example_input
    unknown = [issue for issue in issues if issue.constraint == "unknown_field"]
    # Unknown fields first, since a missing field may only have another name.
    missing = [name_of(issue) for issue in unknown if not _rename(payload, issue, example, reads=reads)]
    for issue in issues:
        tokens, name = to_tokens(issue.field), name_of(issue)
        parent, was = value_at(payload, tokens[:-1]), value_at(payload, tokens)
        known = issue in unknown or (issue.constraint == "missing_field" and was is not ABSENT)
        if known or not tokens or not (is_object(parent) or is_array(parent)):
            continue
        value = answers.get(name, ABSENT)
        if issue.constraint == ONLY_ONE and chosen:
            value = value if issue in chosen else _LEFT_OUT
        elif value is ABSENT or value == was:
            value = (
                _determine(spec, name, tokens, defaults, beside=parent, reads=reads)
                if was is ABSENT
                else ABSENT
                if any(tokens[: len(each)] == each for each in invented)
                else _same_value(issue, was, example, reads=reads)
            )
        if value is _LEFT_OUT and is_object(parent):
            del parent[tokens[-1]]
        elif value is ABSENT or value is _LEFT_OUT:
            missing.append(name)
        else:
            set_value(parent, tokens[-1], value)
    for name, value in answers.items():
        _put_new(spec, payload, to_tokens(name) if name.startswith("/") else (name,), value)
    return RepairedPayload(payload, list(dict.fromkeys(missing)))


def issues_in_hint(hint: RetryHint, sent: Mapping[str, Any]) -> list[FieldIssue]:
    """Return every issue of a hint.

    If a hint has only an example, return the fields in which the payload differs from it.
    """
    named = {to_tokens(issue.field)[-1] for issue in hint.issues if issue.field}
    absent = [
        FieldIssue(field=f"/{name}", constraint="missing_field")
        for name in hint.missing_fields
        if name not in named
    ]
    if named or absent or hint.example_input is None:
        return [*hint.issues, *absent]
    differing = [name for name, value in hint.example_input.items() if sent.get(name, ABSENT) != value]
    return [FieldIssue(field=f"/{name}", constraint="rejected") for name in differing]


def name_of(issue: FieldIssue) -> str:
    """Return the name of an issue's field, or the pointer of a nested field."""
    tokens = to_tokens(issue.field)
    return tokens[0] if len(tokens) == 1 else issue.field


def _is_given(answers: Mapping[str, Any], issue: FieldIssue) -> bool:
    return answers.get(name_of(issue), "") not in ("", None)


def _determine(
    spec: ToolSpec | None,
    name: str,
    tokens: tuple[str, ...],
    defaults: Mapping[str, Any],
    *,
    beside: Any,
    reads: bool,
) -> Any:
    # The planner's defaults come before the schema's. The constant of a tool that changes something is a
    # consent, which only a caller gives.
    if name in defaults or spec is None:
        return defaults.get(name, ABSENT)
    schema = spec.payload.json_schema
    if may_be_misnamed(schema, tokens, beside):
        return ABSENT
    parts = [part for found in locate(schema, tokens) for part in expand(schema, found)]
    words = ("const", "default") if reads else ("default",)
    return next((part[word] for part in parts for word in words if word in part), ABSENT)


def _name_answers(answers: Mapping[str, Any]) -> dict[str, Any]:
    # A top-level field may have been answered by its pointer.
    return {
        to_tokens(name)[0] if name.startswith("/") and name.count("/") == 1 else name: value
        for name, value in answers.items()
    }


def _put_new(spec: ToolSpec | None, payload: dict[str, Any], tokens: tuple[str, ...], value: Any) -> None:
    parent = value_at(payload, tokens[:-1])
    known = spec is not None and locate(spec.payload.json_schema, tokens)
    if known and is_object(parent) and tokens[-1] not in parent:
        parent[tokens[-1]] = deepcopy(value)


def _rename(payload: dict[str, Any], issue: FieldIssue, example: Any, *, reads: bool) -> bool:
    *place, name = to_tokens(issue.field) or ("",)
    parent, repaired = value_at(payload, place), value_at(example, place)
    if not is_object(parent) or name not in parent:
        return True
    value = parent[name]
    names = (
        [key for key in repaired if key not in parent and repaired[key] == value]
        if is_object(repaired)
        else []
    )
    intended = closest_name(name, names) or (names[0] if reads and len(names) == 1 else None)
    if intended is not None and (reads or letters(intended) == letters(name)):
        parent[intended] = parent.pop(name)
        return True
    if reads:
        del parent[name]
    return reads


def _same_value(issue: FieldIssue, was: Any, example: Any, *, reads: bool) -> Any:
    offered = value_at(example, to_tokens(issue.field))
    if offered is ABSENT:
        return _LEFT_OUT if was is None and example is not None else ABSENT
    if not any(_json(offered) == _json(reading) for reading in list_readings(issue, was)):
        return ABSENT
    return offered if keeps_meaning(issue, was, offered, reads=reads) else ABSENT


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)

"""Make a refused call right, by its hint and what is known."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sojourn import FieldIssue, RetryHint, RetryReason

__all__ = ["Mended", "can_mend", "fields_of", "mend"]

_REPAIRABLE = frozenset({RetryReason.MISSING_FIELDS, RetryReason.INVALID_ARGUMENTS})


@dataclass(frozen=True, slots=True)
class Mended:
    """A payload, and the fields that only a person can tell."""

    payload: dict[str, Any]
    missing: list[str]


def can_mend(hint: RetryHint | None) -> bool:
    """Whether another payload could help; it does not against a time-out or a rate limit (SR-136)."""
    return hint is not None and hint.reason in _REPAIRABLE


def fields_of(hint: RetryHint) -> list[str]:
    """The payload's fields that the hint finds fault with, each once."""
    faulty = [_field(issue) for issue in hint.issues]
    return [field for field in dict.fromkeys([*hint.missing_fields, *faulty]) if field]


def mend(
    hint: RetryHint, prior: Mapping[str, Any], answers: Mapping[str, Any], defaults: Mapping[str, Any]
) -> Mended:
    """The prior payload with its faults repaired where something is known.

    A field that the tool does not know is dropped, and a number out of range is moved to its
    bound. Any other fault takes what a person answered; a default only fills what is absent,
    since it must not quietly replace what somebody said.
    """
    payload = dict(prior)
    missing: list[str] = []
    issues = {_field(issue): issue for issue in hint.issues}
    for field in fields_of(hint):
        issue = issues.get(field)
        refused = payload.pop(field, None)
        if issue and issue.constraint == "unknown_field":
            continue
        value = answers.get(field)
        if value is None or value == refused:
            value = defaults.get(field) if field not in prior else _within(refused, issue)
        if value is None:
            missing.append(field)
        else:
            payload[field] = value
    return Mended(payload, missing)


def _field(issue: FieldIssue) -> str:
    return issue.field.lstrip("/").split("/")[0]


def _within(value: Any, issue: FieldIssue | None) -> int | float | None:
    """The nearest number in range, or None for another fault."""
    if issue is None or issue.constraint != "invalid_range" or isinstance(value, bool):
        return None
    if not isinstance(value, (int, float)):
        return None
    bound = issue.maximum if issue.maximum is not None and value > issue.maximum else issue.minimum
    return None if bound is None else type(value)(bound)

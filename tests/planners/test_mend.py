from typing import Any

import pytest

from planners.mend import can_mend, fields_of, mend
from sojourn import FieldIssue, RetryHint


def hint(*issues: FieldIssue, missing: tuple[str, ...] = (), reason: str = "invalid_arguments") -> RetryHint:
    """Make a hint with these issues."""
    return RetryHint(reason=reason, tool="a.b.c", issues=list(issues), missing_fields=list(missing))


@pytest.mark.parametrize(
    ("issue", "prior", "answers", "payload", "missing"),
    [
        (
            FieldIssue(field="/a", constraint="missing_field"),
            {"b": 1},
            {"a": 2, "c": 3},
            {"b": 1, "a": 2},
            [],
        ),
        (FieldIssue(field="/a", constraint="missing_field"), {"b": 1}, {}, {"b": 1}, ["a"]),
        (FieldIssue(field="/a", constraint="unknown_field"), {"a": 1, "b": 1}, {}, {"b": 1}, []),
        (FieldIssue(field="/a", constraint="invalid_format"), {"a": "x"}, {"a": "x"}, {}, ["a"]),
        (FieldIssue(field="/a", constraint="invalid_format"), {"a": "x"}, {"a": "y"}, {"a": "y"}, []),
        (FieldIssue(field="/a", constraint="invalid_range", maximum=500), {"a": 501}, {}, {"a": 500}, []),
        (FieldIssue(field="/a", constraint="invalid_range", minimum=1), {"a": -2}, {}, {"a": 1}, []),
        (FieldIssue(field="/a", constraint="invalid_range", maximum=500), {"a": "501"}, {}, {}, ["a"]),
        (FieldIssue(field="/a/0/b", constraint="invalid_format"), {"a": [{"b": 1}]}, {}, {}, ["a"]),
        (FieldIssue(field="", constraint="invalid_field_type"), {"a": 1}, {}, {"a": 1}, []),
    ],
)
def test_mend(
    issue: FieldIssue,
    prior: dict[str, Any],
    answers: dict[str, Any],
    payload: dict[str, Any],
    missing: list[str],
):
    """A fault takes an answer that differs, a number its bound, an unknown field goes; the rest is for a person."""
    mended = mend(hint(issue), prior, answers, {})
    assert (mended.payload, mended.missing) == (payload, missing)


@pytest.mark.parametrize(("prior", "mended"), [({}, {"a": 1}), ({"a": 2}, {})])
def test_defaults_fill_only_what_is_absent(prior: dict[str, Any], mended: dict[str, Any]):
    """A default stands in for an absent field, never for a refused value."""
    issue = FieldIssue(field="/a", constraint="missing_field" if not prior else "invalid_value")
    assert mend(hint(issue), prior, {}, {"a": 1}).payload == mended


def test_fields_are_named_once():
    """A field that is missing and has an issue is one field."""
    issues = [
        FieldIssue(field="/a", constraint="missing_field"),
        FieldIssue(field="/b", constraint="invalid_format"),
    ]
    assert fields_of(hint(*issues, missing=("a",))) == ["a", "b"]


@pytest.mark.parametrize(
    ("reason", "mendable"),
    [
        ("missing_fields", True),
        ("invalid_arguments", True),
        ("timeout", False),
        ("rate_limited", False),
        ("tool_unavailable", False),
        ("malformed_response", False),
        ("something_new", False),
    ],
)
def test_only_bad_payloads_are_mended(reason: str, mendable: bool):
    """Against time-outs, limits and faults of the tool another payload does not help (SR-136)."""
    assert can_mend(hint(reason=reason)) is mendable
    assert not can_mend(None)

"""From a hint to the question that a person is asked (SR-94, SR-136, SR-145)."""

import pytest

from sojourn import AwaitClarification, FieldIssue, RetryHint, ToolError, ToolResult
from sojourn.core.clarify import question_for, question_of

HINT = RetryHint(
    reason="missing_fields",
    tool="ops.devices.reset",
    missing_fields=["site"],
    example_input={"site": "s-1"},
    clarifying_question="Which site?",
    message="`site` is required",
)


def hint(**changes) -> RetryHint:
    return HINT.model_copy(update=changes)


def failed(hint: RetryHint | None) -> ToolResult:
    return ToolResult(error=ToolError.new("no"), retry_hint=hint)


def missing(*pointers: str) -> list[FieldIssue]:
    return [FieldIssue(field=pointer, constraint="missing_field") for pointer in pointers]


def test_a_hint_is_all_that_a_question_needs() -> None:
    """What is missing, of which tool, and what would do, under the id of SR-94's sample."""
    assert question_of(HINT) == AwaitClarification(
        id="fix-ops.devices.reset",
        question="Which site?",
        missing_fields=["site"],
        restrict_to_tool="ops.devices.reset",
        example_input={"site": "s-1"},
        clarifying_prompt="`site` is required",
    )


@pytest.mark.parametrize(
    ("changes", "question"),
    [
        ({}, "Which site?"),
        ({"clarifying_question": None}, "`site` is required"),
        ({"clarifying_question": "", "message": ""}, "What should ops.devices.reset be called with?"),
        ({"clarifying_question": None, "message": None}, "What should ops.devices.reset be called with?"),
    ],
)
def test_a_person_is_always_asked_something(changes: dict, question: str) -> None:
    """The hint's own question, else what it says to the planner, else which tool it is about."""
    assert question_of(hint(**changes)).question == question


@pytest.mark.parametrize(
    ("issues", "names"),
    [
        ([], ["site"]),
        (missing("/site"), ["site"]),
        (missing("/site", "/to/id"), ["site", "/to/id"]),
        (missing("/id", "/to/id"), ["id", "/to/id"]),
        (missing("/lines/0/id"), ["/lines/0/id"]),
        ([*missing("/to/id"), FieldIssue(field="/a/b", constraint="invalid_format")], ["/to/id"]),
    ],
    ids=lambda value: str([getattr(each, "field", each) for each in value]),
)
def test_a_field_of_a_field_is_named_in_full(issues: list[FieldIssue], names: list[str]) -> None:
    """Its bare name may be another field's, whose form would refuse the right answer."""
    bare = list(dict.fromkeys(issue.field.rsplit("/", 1)[1] for issue in issues)) or ["site"]
    assert question_of(hint(missing_fields=bare, issues=issues)).missing_fields == names


def test_the_last_call_that_lacks_fields_is_asked_about() -> None:
    """One question at a time; what a person cannot give is left to the planner."""
    other = hint(tool="ops.sites.find")
    for results, asked in (
        ([failed(HINT), failed(other)], "fix-ops.sites.find"),
        ([failed(other), failed(HINT), ToolResult(result=1), failed(None)], "fix-ops.devices.reset"),
        (
            [failed(HINT), failed(hint(tool="x", missing_fields=[], reason="timeout"))],
            "fix-ops.devices.reset",
        ),
    ):
        question = question_for(results)
        assert question is not None
        assert question.id == asked


@pytest.mark.parametrize(
    "results", [[], [ToolResult(result=1)], [failed(None)], [failed(hint(missing_fields=[]))]]
)
def test_without_missing_fields_nobody_is_asked(results: list[ToolResult]) -> None:
    """Other faults are the planner's to mend."""
    assert question_for(results) is None

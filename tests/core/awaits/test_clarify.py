"""The question to a person that a hint becomes (SR-94, SR-136, SR-145)."""

import pytest

from sojourn import AwaitClarification, FieldIssue, RetryHint, ToolError, ToolResult
from sojourn.core.awaits.factories import point_to_fields, question_for

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


def test_a_hint_becomes_a_question() -> None:
    """The question has the hint's missing fields, tool, example and message, and an id as in SR-94's sample."""
    assert HINT.question() == AwaitClarification(
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
    """The question is the hint's `clarifying_question`, else its `message`, else a text that names the tool."""
    assert hint(**changes).question().question == question


def test_a_nested_field_is_named_by_its_pointer(subtests: pytest.Subtests) -> None:
    """A nested field's bare name may be the name of another field, whose form would refuse the right answer."""
    rows = [
        ([], ["site"]),
        (missing("/site"), ["site"]),
        (missing("/site", "/to/id"), ["site", "/to/id"]),
        (missing("/id", "/to/id"), ["id", "/to/id"]),
        (missing("/lines/0/id"), ["/lines/0/id"]),
        (missing("/a~1b", "/c~01", "/to/id~1x"), ["a/b", "c~1", "/to/id~1x"]),
        ([*missing("/to/id"), FieldIssue(field="/a/b", constraint="invalid_format")], ["/to/id"]),
    ]
    for issues, names in rows:
        with subtests.test(issues=issues, names=names):
            bare = list(dict.fromkeys(issue.field.rsplit("/", 1)[1] for issue in issues)) or ["site"]
            assert hint(missing_fields=bare, issues=issues).question().missing_fields == names


def test_the_last_call_that_lacks_fields_is_asked_about() -> None:
    """Of several calls that lack fields, the last one becomes the question; other failures are left to the planner."""
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
    """A step in which no call lacks fields asks no question."""
    assert question_for(results) is None


def test_a_planners_bare_names_become_the_pointers_of_the_hint(subtests: pytest.Subtests) -> None:
    """A planner's names from `hint.missing_fields`, which are bare, become pointers by a hint of the same tool (SR-94)."""
    rows = [
        (["id"], missing("/lines/0/id"), ["/lines/0/id"]),
        (
            ["id", "site"],
            missing("/site", "/lines/0/id", "/lines/1/id"),
            ["/lines/0/id", "/lines/1/id", "site"],
        ),
        (["id"], missing("/id", "/to/id"), ["id", "/to/id"]),
        (["/to/id", "id"], missing("/to/id"), ["/to/id"]),
        (["a/b"], missing("/to/a~1b"), ["/to/a~1b"]),
        (["note"], missing("/to/id"), ["note"]),
        (["id"], missing("/id"), ["id"]),
        ([], missing("/id"), []),
    ]
    for named, issues, asked in rows:
        with subtests.test(named=named, issues=issues, asked=asked):
            question = AwaitClarification(question="?", missing_fields=named, restrict_to_tool=HINT.tool)
            told = hint(missing_fields=[issue.field.rsplit("/", 1)[1] for issue in issues], issues=issues)
            assert point_to_fields(question, [failed(told)]).missing_fields == asked
            for other in (
                [],
                [ToolResult(result=1)],
                [failed(told.model_copy(update={"tool": "ops.other.tool"}))],
            ):
                assert point_to_fields(question, other) == question

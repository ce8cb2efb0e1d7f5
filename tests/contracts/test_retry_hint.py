"""RetryHint: how to repair a call (SR-89, SR-90, SR-124)."""

from datetime import timedelta

from sojourn import FieldIssue, RetryHint, RetryReason, ToolRequest
from sojourn.values.wire import encode


def test_the_six_reasons_have_their_exact_names() -> None:
    """The common reasons are these strings (SR-90)."""
    named = {name: value for name, value in vars(RetryReason).items() if name.isupper()}
    assert named == {
        "INVALID_ARGUMENTS": "invalid_arguments",
        "MISSING_FIELDS": "missing_fields",
        "MALFORMED_RESPONSE": "malformed_response",
        "TIMEOUT": "timeout",
        "RATE_LIMITED": "rate_limited",
        "TOOL_UNAVAILABLE": "tool_unavailable",
    }


def test_the_set_of_reasons_is_open() -> None:
    """A reason that a later version or a tool's author adds is written and read unchanged (SR-90)."""
    hint = RetryHint(reason="quota_of_the_month", tool="a.b.c")
    assert RetryHint.model_validate_json(encode(hint)) == hint


def test_an_example_with_invented_values_is_no_call() -> None:
    """`mended()` sends no value that nobody gave; on the wire the new fields are left out where nothing is invented."""
    hint = RetryHint(
        reason="missing_fields", tool="a.b.c", example_input={"n": 1}, invented=["/n"], template={}
    )
    assert hint.mended() is None
    assert encode(hint).endswith(b'"example_input":{"n":1},"invented":["/n"],"template":{}}')
    assert RetryHint.model_validate_json(encode(hint)) == hint


def test_the_fields_have_their_wire_names() -> None:
    """On the wire the eight fields of SR-89 and Sojourn's own two, `issues` and `retry_after`, are in snake case."""
    hint = RetryHint(
        reason="missing_fields",
        tool="a.b.c",
        restrict_to_tool=True,
        missing_fields=["site"],
        example_input={"site": "s-1"},
        prior_input={},
        clarifying_question="Which site?",
        message="give a site",
        issues=[FieldIssue(field="/site", constraint="missing_field")],
        retry_after=timedelta(seconds=2.5),
    )
    assert encode(hint) == (
        b'{"reason":"missing_fields","tool":"a.b.c","restrict_to_tool":true,"missing_fields":["site"],'
        b'"example_input":{"site":"s-1"},"prior_input":{},"clarifying_question":"Which site?",'
        b'"message":"give a site","issues":[{"field":"/site","constraint":"missing_field"}],"retry_after":"PT2.5S"}'
    )
    assert RetryHint.model_validate_json(encode(hint)) == hint


def test_a_mended_call_is_the_example_as_a_call() -> None:
    """`mended()` is the call to make next, without an id: the run gives the new call its own."""
    hint = RetryHint(reason="invalid_arguments", tool="a.b.c", example_input={"n": 1})
    assert hint.mended() == ToolRequest(name="a.b.c", payload={"n": 1}, tool_call_id="")


def test_without_an_example_nothing_is_mended() -> None:
    """`mended()` is None without an example; an empty object is an example."""
    assert RetryHint(reason="timeout", tool="a.b.c").mended() is None
    assert RetryHint(reason="timeout", tool="a.b.c", example_input={}).mended() == ToolRequest(name="a.b.c")

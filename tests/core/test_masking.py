"""Masks: a value is found however it is written, and in everything that a result says."""

import json
from urllib.parse import quote

import pytest

from sojourn.contracts.artifact import Artifact
from sojourn.contracts.bounds import Bounds
from sojourn.contracts.input_required import InputForm, InputRequired
from sojourn.contracts.retry_hint import FieldIssue, RetryHint
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult, ToolTelemetry
from sojourn.core.masking import mask_for, masked, masked_fault
from sojourn.core.wording import clip, plain

SECRET = '-----BEGIN "KEY"\nline\\2\té/+-----'


@pytest.mark.parametrize(
    "written",
    [
        SECRET,
        json.dumps({"key": SECRET}),
        json.dumps({"key": SECRET}, ensure_ascii=False),
        repr({"key": SECRET}),
        f"https://x/?key={quote(SECRET, safe='')}",
        plain(f"no such key: {SECRET}", 200),
    ],
)
def test_a_value_is_found_as_others_write_it(written):
    """As JSON, as Python, in an address, on one line."""
    mask = mask_for({"token": SECRET})
    assert mask is not None
    assert "KEY" not in mask(written)
    assert "[token]" in mask(written)


@pytest.mark.parametrize("kept", range(4, 20))
def test_half_a_value_is_hidden_too(kept):
    """Where a text was cut in the middle of it."""
    mask = mask_for({"token": "tok-0123456789abcdef"})
    assert mask is not None
    assert mask(clip("a" * 10 + "tok-0123456789abcdef" + "z" * 20, 11 + kept)) == "a" * 10 + "…"


def test_a_cut_elsewhere_changes_nothing():
    """Only the beginning of a value at the very end counts."""
    mask = mask_for({"token": "tok-0123456789abcdef"})
    assert mask is not None
    assert mask("no tok-0 here…") == "no tok-0 here…"


@pytest.mark.parametrize("values", [{}, {"token": "abc"}, {"token": True}, {"token": None}])
def test_there_may_be_nothing_to_hide(values):
    """What is shorter than 4 characters is in half of all texts."""
    assert mask_for(values) is None


def told(secret: str) -> ToolResult:
    """A result that says it wherever it can."""
    inputs = {"seen": secret, secret: [secret]}
    return ToolResult(
        result={secret: [secret, 5]},
        error=ToolError(message=secret, code=secret, cause=ToolError(message=secret)),
        retry_hint=RetryHint(
            reason="invalid_arguments",
            tool="a.b.c",
            message=secret,
            clarifying_question=secret,
            prior_input=inputs,
            example_input=inputs,
            issues=[FieldIssue(field="/seen", constraint="rejected", expected_type=secret, allowed=[secret])],
        ),
        telemetry=ToolTelemetry(model=secret, extra={"a": [secret]}),
        bounds=Bounds(returned=1, refinement_hint=secret),
        artifacts=[Artifact(kind="note", data={"a": secret}, size=1)],
        input_required=InputRequired(forms=[InputForm(key="k", message=secret, form={"title": secret})]),
    )


def test_a_result_says_nothing_of_it():
    """Neither in values nor in keys; ids and references stay."""
    mask = mask_for({"token": "tok-1234"})
    assert mask is not None
    assert masked(told("tok-1234"), mask) == told("[token]")


def test_a_fault_says_nothing_of_it():
    """Its words; what the call is repaired with stays as it was sent."""
    mask = mask_for({"token": "tok-1234"})
    assert mask is not None
    plainly, before, after = told("tok-1234"), told("tok-1234"), told("[token]")
    hint, asked = after.retry_hint, before.retry_hint
    assert hint
    assert asked
    kept = {"prior_input": asked.prior_input, "example_input": asked.example_input}
    assert masked_fault(plainly, mask) == before.model_copy(
        update={"error": after.error, "retry_hint": hint.model_copy(update=kept)}
    )
    assert masked_fault(ToolResult(result="tok-1234"), mask) == ToolResult(result="tok-1234")

"""Masking: a secret is found in its escaped forms, and in every field of a result."""

import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.contracts.tool_call import InputForm, InputRequired
from sojourn.contracts.tool_error import FieldIssue, RetryHint, ToolError
from sojourn.contracts.tool_result import Artifact, Bounds, RunLink, ToolResult, ToolTelemetry
from sojourn.core.payload.masking import HIDDEN, hide_secrets, mask_fault, mask_for, mask_result
from sojourn.values.text import clip, plain

SECRET = '-----BEGIN "KEY"\nline\\2\té/+-----'


def test_a_secret_is_found_in_its_escaped_forms(subtests: pytest.Subtests) -> None:
    """A secret is masked verbatim and as JSON, Python, URLs and single-line text write it."""
    rows = [
        SECRET,
        json.dumps({"key": SECRET}),
        json.dumps({"key": SECRET}, ensure_ascii=False),
        repr({"key": SECRET}),
        f"https://x/?key={quote(SECRET, safe='')}",
        plain(f"no such key: {SECRET}", 200),
    ]
    for written in rows:
        with subtests.test(written=written):
            mask = mask_for({"token": SECRET})
            assert mask is not None
            assert "KEY" not in mask(written)
            assert "[token]" in mask(written)


def test_the_beginning_of_a_secret_is_removed_from_a_shortened_text(subtests: pytest.Subtests) -> None:
    """If a text was shortened in the middle of a secret, the secret's beginning is removed."""
    rows = range(4, 20)
    for kept in rows:
        with subtests.test(str(kept)):
            mask = mask_for({"token": "tok-0123456789abcdef"})
            assert mask is not None
            assert mask(clip("a" * 10 + "tok-0123456789abcdef" + "z" * 20, 11 + kept)) == "a" * 10 + "…"


def test_the_beginning_of_a_secret_elsewhere_stays():
    """The beginning of a secret is removed only at the very end of a shortened text."""
    mask = mask_for({"token": "tok-0123456789abcdef"})
    assert mask is not None
    assert mask("no tok-0 here…") == "no tok-0 here…"


def test_short_and_blank_values_are_not_masked(subtests: pytest.Subtests) -> None:
    """Values of less than 4 characters, blanks, booleans and None are not masked: too many texts have them."""
    rows = [
        {},
        {"token": "abc"},
        {"token": True},
        {"token": None},
        {"token": 123},
        {"token": " " * 9},
        {"token": "\n"},
    ]
    for values in rows:
        with subtests.test(values=values):
            assert mask_for(values) is None


@pytest.mark.parametrize(
    "values",
    [
        {"short": "abcd", "long": "abcd-efgh-ijkl"},
        {"long": "abcd-efgh-ijkl", "short": "abcd"},
        {"both": ["abcd", "abcd-efgh-ijkl"]},
        {"short": 1234, "long": "12345678"},
    ],
)
def test_longer_secrets_are_masked_first(values):
    """A secret that contains another is masked first, so that no part of it is left."""
    mask = mask_for(values)
    assert mask is not None
    for text in ("abcd-efgh-ijkl", "12345678"):
        if any(text in str(value) for value in values.values()):
            assert mask(f"<{text}>") in ("<[long]>", "<[both]>")


KEY = """-----BEGIN KEY-----
MIIEvQIBADANBgkqhkiG9w0BAQEFAASC
BKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj
 short
-----END KEY-----"""


def test_lines_of_a_value_are_found_too():
    """Lines of 8 characters or more of a multi-line secret are masked by themselves."""
    mask = mask_for({"key": KEY})
    assert mask is not None
    assert mask("bad line 2: MIIEvQIBADANBgkqhkiG9w0BAQEFAASC") == "bad line 2: [key]"
    assert mask("at BKcwggSjAgEAAoIB…") == "at …"
    assert mask("a short cut") == "a short cut"
    many = mask_for({"key": "\n".join(f"line-{number:08d}" for number in range(10_000))})
    assert many is not None
    assert many("line-00000199") == "[key]"


@pytest.mark.parametrize("secret", [4711, 4711.0, "4711"], ids=repr)
def test_numbers_are_found(secret):
    """A secret number is masked as a number and as a text; a field that must be a number gets its default."""
    mask = mask_for({"pin": secret})
    assert mask is not None
    spent = ToolTelemetry(duration_ms=4711, cost=4711.0, extra={"a": 4711})
    issue = FieldIssue(field="/a", constraint="x", minimum=4711, allowed=[4711])
    hint = RetryHint(reason="x", tool="t", issues=[issue], example_input={"a": 4711})
    given = ToolResult(
        result=[4711, 4711.0, -4711, 47, 47110, True, "4711"],
        children_count=4711,
        telemetry=spent,
        retry_hint=hint,
        bounds=Bounds(returned=4711, total=4711),
    )
    assert mask_result(given, mask) == ToolResult(
        result=["[pin]", "[pin]", "-[pin]", 47, 47110, True, "[pin]"],
        telemetry=ToolTelemetry(extra={"a": "[pin]"}),
        retry_hint=RetryHint(
            reason="x",
            tool="t",
            issues=[FieldIssue(field="/a", constraint="x", allowed=["[pin]"])],
            example_input={"a": "[pin]"},
        ),
        bounds=Bounds(returned=0),
    )


def test_the_calls_name_and_the_reasons_stay():
    """The call's name and the values of RetryReason are not masked where they fill a field, even if one is injected."""
    mask = mask_for({"word": "timeout", "name": "a.b.c"})
    assert mask is not None
    given = ToolResult(
        name="a.b.c",
        error=ToolError(message="a.b.c: timeout", code="timeout"),
        retry_hint=RetryHint(reason="timeout", tool="a.b.c"),
    )
    error = ToolError(message="[name]: [word]", code="timeout")
    assert mask_result(given, mask) == given.model_copy(update={"error": error})


@given(
    st.recursive(
        st.text(max_size=4) | st.integers() | st.floats(allow_nan=False) | st.just("tok-1234"),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    )
)
def test_a_result_without_a_secret_is_the_same_object(value):
    """A result without a secret is returned as the same object; else no text of it has the secret."""
    mask = mask_for({"token": "tok-1234"})
    assert mask is not None
    given = ToolResult(result=value)
    made = mask_result(given, mask)
    if "tok-1234" in repr(value):
        assert "tok-1234" not in repr(made)
    else:
        assert made is given


def result_with(secret: str) -> ToolResult:
    """A result with the secret in every field that may have a text."""
    inputs = {"seen": secret, secret: [secret]}
    return ToolResult(
        result={secret: [secret, 5]},
        error=ToolError(message=secret, code=secret, cause=ToolError(message=secret)),
        retry_hint=RetryHint(
            reason=secret,
            tool="a.b.c",
            missing_fields=[secret],
            message=secret,
            clarifying_question=secret,
            prior_input=inputs,
            example_input=inputs,
            issues=[
                FieldIssue(field=f"/{secret}", constraint="rejected", expected_type=secret, allowed=[secret])
            ],
        ),
        telemetry=ToolTelemetry(model=secret, extra={"a": [secret]}),
        bounds=Bounds(returned=1, refinement_hint=secret, next_cursor=secret, note=secret),
        run_link=RunLink(run_id=secret, agent_id="a.b", parent_run_id="r", parent_tool_call_id="c"),
        artifacts=[Artifact(kind=secret, data={"a": secret}, size=1)],
        input_required=InputRequired(
            server=secret,
            forms=[InputForm(key=secret, message=secret, form={"title": secret})],
            responses={secret: {"content": secret}},
            request_state=secret,
        ),
    )


def test_a_secret_is_masked_in_every_field():
    """A secret is masked in the values and the keys of every field of a result."""
    mask = mask_for({"token": "tok-1234"})
    assert mask is not None
    assert mask_result(result_with("tok-1234"), mask) == result_with("[token]")


def test_masked_fault_masks_the_error_and_the_hints_texts():
    """`masked_fault` masks the error and the hint, except for the payloads that repair the call."""
    mask = mask_for({"token": "tok-1234"})
    assert mask is not None
    given, before, after = result_with("tok-1234"), result_with("tok-1234"), result_with("[token]")
    hint, asked = after.retry_hint, before.retry_hint
    assert hint
    assert asked
    kept = {"prior_input": asked.prior_input, "example_input": asked.example_input}
    assert mask_fault(given, mask) == before.model_copy(
        update={"error": after.error, "retry_hint": hint.model_copy(update=kept)}
    )
    assert mask_fault(ToolResult(result="tok-1234"), mask) == ToolResult(result="tok-1234")


def test_values_are_hidden_by_the_names_of_their_fields():
    """A name counts word by word, at any depth; what a name hides is hidden whole, and nothing else changes."""
    hidden = {
        "password": "p",
        "apiKey": "k",
        "API_KEY": "k",
        "x-auth-token": "t",
        "secret": {"a": [1]},
        "pin": 1234,
    }
    plain = {
        "max_tokens": 5,
        "keyboard": "us",
        "shopping": "x",
        "passwords_changed": 3,
        "token": None,
        "has_pin": True,
    }
    payload = {**plain, "rows": [{"name": "a", "secret_key": "s"}], **hidden}
    assert hide_secrets(payload) == {
        **plain,
        "rows": [{"name": "a", "secret_key": HIDDEN}],
        **dict.fromkeys(hidden, HIDDEN),
    }

"""The attributes of a call have few values, are bounded, and hold no text from outside."""

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadConverter

from sojourn import RetryHint, ToolError, ToolRequest
from sojourn.contracts.dispatch import Dispatch
from sojourn.contracts.tool_result import ToolResult
from sojourn.telemetry import names
from sojourn.telemetry.recorder import context_in, with_context


def failed(code: str | None, reason: str | None = None) -> ToolResult:
    """Return the result of a failed call."""
    hint = RetryHint(reason=reason, tool="a.b.c") if reason else None
    return ToolResult(error=ToolError(message="it said hunter2", code=code), retry_hint=hint)


def test_the_error_type_of_a_call(subtests: pytest.Subtests) -> None:
    """The error type is the hint's reason, else the error's code where it has the form of one, never a message."""
    rows = [
        (ToolResult(result=1), None),
        (failed("denied"), "denied"),
        (failed("ValueError", "timeout"), "timeout"),
        (failed(None), "_OTHER"),
        (failed("it said hunter2"), "_OTHER"),
        (failed("x" * 65), "_OTHER"),
        (failed("e\u0301"), "_OTHER"),
    ]
    for result, error_type in rows:
        with subtests.test(result=result, error_type=error_type):
            assert names.error_type(result) == error_type


def test_reasons_from_outside_are_no_error_type():
    """The error type of a result from outside is a `RetryReason` or `_OTHER`, so that the number of values is bounded."""
    assert names.error_type(failed("Custom17"), from_outside=True) == "_OTHER"
    assert names.error_type(failed("x", "own_reason"), from_outside=True) == "_OTHER"
    assert names.error_type(failed("x", "timeout"), from_outside=True) == "timeout"


def test_a_tool_that_a_model_invented_is_unknown():
    """A tool is known when its call was carried out, or answered for a reason that only a known tool has."""
    answered = Dispatch(kind="answered")
    assert names.is_known(Dispatch(kind="activity"), failed("x", "tool_unavailable"))
    assert names.is_known(answered, failed("denied"))
    assert names.is_known(answered, failed("x", "missing_fields"))
    assert not names.is_known(answered, failed("x", "tool_unavailable"))
    assert not names.is_known(None, failed("x"))


def test_texts_from_outside_are_printable_and_short():
    """A text as an attribute's value has no control characters, and at most 200 characters."""
    assert names.short("a\x1b[31m\n\u202eb") == "a?[31m??b"
    assert len(names.short("a" * 1_000)) == 200
    assert names.of_call(ToolRequest(name="x\n" * 300).name, "c", None)["gen_ai.tool.name"] == "x?" * 100


def test_an_invalid_header_is_ignored(subtests: pytest.Subtests) -> None:
    """A header that is no trace context, with which any program may start a run, is ignored."""
    rows = [
        b"",
        b"[]",
        b"1",
        b'{"traceparent": 1}',
        b'{"traceparent": "00-zz"}',
        b"\xff",
        b'{"traceparent": {"a": []}}',
    ]
    for sent in rows:
        with subtests.test(sent=sent):
            payload = Payload(metadata={"encoding": b"json/plain"}, data=sent)
            assert with_context({}, context_in({"_tracer-data": payload})) == {}
            assert (
                with_context({}, context_in({"_tracer-data": Payload(metadata={"encoding": b"none"})})) == {}
            )


def test_a_trace_context_is_passed_on():
    """The context of a header is written to headers unchanged, beside their other fields."""
    carrier = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    header = {"_tracer-data": PayloadConverter.default.to_payload(carrier)}
    sent = with_context({"own": Payload()}, context_in(header))
    assert sent == {"own": Payload(), **header}

"""Unknown outcomes: which failures leave open whether a call took effect, and how its result says so."""

from datetime import timedelta

import pytest

from sojourn import RateLimited, RetryHint, ToolError, ToolResult, Toolset, ToolUnavailable
from sojourn.core.payload.unknown_outcome import doubt_about, leaves_unknown, mark_unknown, may_repeat


def spec(**options):
    tools = Toolset("test.bank")

    @tools.tool(**options)
    async def pay() -> str:
        """Pay."""
        return ""

    return pay.spec


def test_the_kind_of_fault_decides(subtests: pytest.Subtests) -> None:
    """A call that did not reach its service had no effect, and one of a read-only tool never has any."""
    rows = [
        (RateLimited(), False),
        (ToolUnavailable("503"), False),
        (ToolUnavailable("cut off", outcome_unknown=True), True),
        (ConnectionError(), True),
        (ConnectionResetError(), True),
        (ConnectionRefusedError(), False),
    ]
    for error, is_unknown in rows:
        with subtests.test(error=error, is_unknown=is_unknown):
            assert leaves_unknown(spec(), error) is is_unknown
            assert leaves_unknown(spec(read_only=True), error) is False


def test_what_may_be_repeated():
    """After an unknown outcome only read-only and idempotent tools may be called again."""
    assert may_repeat(spec(read_only=True))
    assert may_repeat(spec(idempotent=True))
    assert not may_repeat(spec())
    assert not may_repeat(spec(idempotent=False))


@pytest.mark.parametrize("reason", ["missing_fields", "invalid_arguments"])
@pytest.mark.parametrize("repeatable", [True, False])
def test_arguments_that_the_tool_takes_no_more_are_not_changed(reason, repeatable):
    """With other arguments it is another effect, whatever the tool is declared to be; the hint says what to do instead."""
    hint = RetryHint(reason=reason, tool="test.bank.pay")
    said = mark_unknown(
        ToolResult(error=ToolError(message="no"), retry_hint=hint), repeatable=repeatable
    ).retry_hint
    assert "takes these arguments no more" in said.message
    assert said.message.endswith(
        "first check what happened, with a tool that only reads or by asking a person."
    )
    assert "same call again" not in said.message


@pytest.mark.parametrize("repeatable", [True, False])
def test_a_result_says_it_once(repeatable):
    """Error and hint say it, in a field and in words; the hint says whether the same call may be made again."""
    hint = RetryHint(reason="tool_unavailable", tool="test.bank.pay", retry_after=timedelta(seconds=31))
    result = ToolResult(error=ToolError(message="503"), retry_hint=hint)
    said = mark_unknown(result, repeatable=repeatable)
    assert said.error.outcome_unknown
    assert said.retry_hint.outcome_unknown
    assert said.retry_hint.retry_after == hint.retry_after
    assert ("again in 31 s" in said.retry_hint.message) is repeatable
    assert ("Do not repeat it" in said.retry_hint.message) is not repeatable
    assert mark_unknown(said) is said
    assert mark_unknown(ToolResult(result=1)) == ToolResult(result=1)


def test_an_exception_is_less_of_a_doubt_than_an_attempt_that_was_lost():
    """A person is alarmed by a cut-off call, a lost worker and a lost answer, and not by an exception that says nothing."""
    raised = ToolResult(error=ToolError(message="KeyError: 'x'", outcome_unknown=True))
    assert doubt_about(raised) == "raised"
    cut = ToolResult(error=ToolError(message="x" * 3_000, code="canceled"))
    assert doubt_about(cut) == doubt_about(ToolResult(result=1)) == ""
    assert doubt_about(mark_unknown(cut)) == "unknown"
    hint = RetryHint(reason="timeout", tool="a.b.c", outcome_unknown=True)
    assert doubt_about(raised.model_copy(update={"retry_hint": hint})) == "unknown"

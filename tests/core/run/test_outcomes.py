"""Outcomes: answers to calls that ended outside the tool (SR-130, SR-140)."""

from sojourn import RunLink, ToolError, ToolRequest, ToolResult
from sojourn.core.run import outcomes

CALL = ToolRequest(name="a.b.c", payload={"x": 1}, tool_call_id="c1")
LINK = RunLink(run_id="r/c1", agent_id="a.child", parent_run_id="r", parent_tool_call_id="c1")


def test_a_result_from_an_activity_is_given_its_call() -> None:
    """The call stands beside the result in the history and is written once."""
    assert outcomes.attach_call(CALL, ToolResult(result=3), "r") == ToolResult(
        name="a.b.c", tool_call_id="c1", result=3
    )


def test_a_queue_that_nobody_serves_is_named() -> None:
    """A call that no worker took did not run, is `tool_unavailable`, and says which queue."""
    result = outcomes.not_started(CALL, "gpu", "0:00:30")
    assert result.retry_hint.reason == result.error.code == "tool_unavailable"
    assert result.retry_hint.message == result.error.message
    assert "gpu" in result.error.message
    assert "did not run" in result.error.message


def test_a_lost_call_may_have_run() -> None:
    """When workers died under a call nobody knows its outcome, and the planner is told so (D-11)."""
    result = outcomes.lost(CALL, "heartbeat")
    assert result.retry_hint.reason == "tool_unavailable"
    assert "outcome is unknown" in result.error.message
    assert "heartbeat" in result.error.message


def test_a_time_out_is_told_by_what_it_means() -> None:
    """Not taken in time is another thing than taken and lost."""
    assert outcomes.timed_out(CALL, "schedule-to-start", "gpu", "1") == outcomes.not_started(CALL, "gpu", "1")
    assert outcomes.timed_out(CALL, "heartbeat", "gpu", "1") == outcomes.lost(CALL, "heartbeat")


def test_a_cancelled_call_says_why() -> None:
    """A call cancelled with its run is answered, with the reason where one was given."""
    assert outcomes.canceled(CALL, None).error == ToolError(message="canceled with the run", code="canceled")
    assert outcomes.canceled(CALL, "too slow").error.message == "canceled with the run: too slow"


def test_every_outcome_answers_its_call() -> None:
    """Each carries the call's name and id, and an error where there is no result."""
    for result in (
        outcomes.not_started(CALL, "q", "1"),
        outcomes.lost(CALL, "x"),
        outcomes.canceled(CALL, None),
        outcomes.failed(CALL, ToolError.new("x")),
    ):
        assert (result.name, result.tool_call_id) == ("a.b.c", "c1")
        assert (result.error is None) is (result.result is not None)


def test_a_final_turn_that_fails_ends_in_a_clear_answer() -> None:
    """The run ends with the limit and the reason, not with an error."""
    message = outcomes.unanswered("the planner failed", "The run has used all of its tool calls.")
    assert message.role == "assistant"
    assert message.text == (
        "The run has used all of its tool calls. The run ended without an answer: the planner failed"
    )

"""Outcomes: results of calls that ended outside the tool (SR-130, SR-140)."""

from sojourn import ToolError, ToolRequest, ToolResult
from sojourn.contracts import RunLink
from sojourn.core.awaits.factories import ORIGIN
from sojourn.core.payload.unknown_outcome import doubt_about
from sojourn.core.run import outcomes

CALL = ToolRequest(name="a.b.c", payload={"x": 1}, tool_call_id="c1")
LINK = RunLink(run_id="r/c1", agent_id="a.child", parent_run_id="r", parent_tool_call_id="c1")


def test_a_result_of_an_activity_gets_the_calls_name_and_id() -> None:
    """An activity's result has no name and id, which the history holds beside it; `attach_call` adds them."""
    assert outcomes.attach_call(CALL, ToolResult(result=3), "r") == ToolResult(
        name="a.b.c", tool_call_id="c1", result=3
    )


def test_a_call_that_no_worker_took_names_the_task_queue() -> None:
    """The result is `tool_unavailable`, names the task queue, and says that the call did not run."""
    result = outcomes.not_started_result(CALL, "gpu", "30 s")
    assert result.retry_hint.reason == result.error.code == "tool_unavailable"
    assert result.retry_hint.message == result.error.message
    assert "from task queue gpu within 30 s" in result.error.message
    assert "did not run" in result.error.message


def test_a_lost_call_may_have_run() -> None:
    """The result of a call whose worker was lost is `tool_unavailable`, and says that the outcome is unknown."""
    result = outcomes.lost_result(CALL, "heartbeat")
    assert result.retry_hint.reason == "tool_unavailable"
    assert "outcome is unknown" in result.error.message
    assert "heartbeat" in result.error.message


def test_the_kind_of_a_time_out_selects_the_result() -> None:
    """A schedule-to-start time-out means that the call did not start, any other that its worker was lost."""
    assert outcomes.timeout_result(CALL, "schedule-to-start", "gpu", "1") == outcomes.not_started_result(
        CALL, "gpu", "1"
    )
    assert outcomes.timeout_result(CALL, "heartbeat", "gpu", "1") == outcomes.lost_result(CALL, "heartbeat")


def test_a_cancelled_call_says_why() -> None:
    """The result of a cancelled call has the reason, if there is one."""
    assert outcomes.cancellation_result(CALL, None).error == ToolError(
        message="canceled with the run", code="canceled"
    )
    assert outcomes.cancellation_result(CALL, "too slow").error.message == "canceled with the run: too slow"


def test_every_outcome_answers_its_call() -> None:
    """Every outcome has the call's name and id, and an error."""
    for result in (
        outcomes.not_started_result(CALL, "q", "1"),
        outcomes.lost_result(CALL, "x"),
        outcomes.cancellation_result(CALL, None),
        outcomes.failure_result(CALL, ToolError.new("x")),
    ):
        assert (result.name, result.tool_call_id) == ("a.b.c", "c1")
        assert (result.error is None) is (result.result is not None)


def test_a_failed_final_turn_ends_with_an_answer() -> None:
    """The answer of a run whose final turn failed names the limit and the failure."""
    message = outcomes.unanswered_message("the planner failed", "The run has used all of its tool calls.")
    assert message.role == "assistant"
    assert message.text == (
        "The run has used all of its tool calls. The run ended without an answer: the planner failed"
    )
    listed = outcomes.unanswered_message("the planner failed", "Too many errors:\n- /a: Permission denied")
    assert listed.text.endswith("Permission denied\n\nThe run ended without an answer: the planner failed")


def test_a_call_that_must_not_be_repeated_says_why_and_what_to_do() -> None:
    """It was not called, what is in doubt is the earlier call, of this run or of its origin, and a person is told so."""
    own, of_origin = (outcomes.not_repeated(CALL, maker) for maker in ("", ORIGIN))
    for result in (own, of_origin):
        assert "was not called" in result.error.message
        assert "Find out whether it happened" in result.error.message
        assert result.error.outcome_unknown
        assert doubt_about(result) == "unknown"
    assert "an earlier call with these arguments" in own.error.message
    assert "the run from which this one was forked" in of_origin.error.message

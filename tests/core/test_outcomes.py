"""Outcomes: answers to calls that ended outside the tool (SR-130, SR-140)."""

from sojourn import Message, RunLink, RunOutput, ToolError, ToolRequest, ToolResult, ToolTelemetry, Usage
from sojourn.core import child_outcomes, outcomes

CALL = ToolRequest(name="a.b.c", payload={"x": 1}, tool_call_id="c1")
LINK = RunLink(run_id="r/c1", agent_id="a.child", parent_run_id="r", parent_tool_call_id="c1")


def test_a_result_from_an_activity_is_given_its_call() -> None:
    """The call stands beside the result in the history and is written once."""
    assert outcomes.of_call(CALL, ToolResult(result=3), "r") == ToolResult(
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
    output = RunOutput(run_id="r/c1", agent_id="a.child", final=Message.assistant("42"))
    for result in (
        outcomes.not_started(CALL, "q", "1"),
        outcomes.lost(CALL, "x"),
        outcomes.canceled(CALL, None),
        outcomes.failed(CALL, ToolError.new("x")),
        child_outcomes.failed(CALL, ToolError.new("x"), LINK, None),
        child_outcomes.finished(CALL, output, LINK, typed=False),
    ):
        assert (result.name, result.tool_call_id) == ("a.b.c", "c1")
        assert (result.error is None) is (result.result is not None)


def test_a_child_runs_output_is_its_calls_result() -> None:
    """Answer, summed costs, calls made and the link to the run (SR-53)."""
    output = RunOutput(
        run_id="r/c1",
        agent_id="a.child",
        final=Message.assistant("42"),
        children_count=7,
        telemetry=ToolTelemetry(duration_ms=9, attempts=7, input_tokens=1),
        usage=Usage(input_tokens=100, output_tokens=20, cached_tokens=50, cost=0.5, model="m-1"),
    )
    assert child_outcomes.finished(CALL, output, LINK, typed=False) == ToolResult(
        name="a.b.c",
        tool_call_id="c1",
        result="42",
        children_count=7,
        run_link=LINK,
        telemetry=ToolTelemetry(
            duration_ms=9, attempts=7, input_tokens=101, output_tokens=20, cost=0.5, model="m-1"
        ),
    )


def test_a_childs_typed_answer_wins_over_its_text() -> None:
    """A planner that gives a typed answer gives it to its parent; even an empty one."""
    for typed in ({"n": 1}, [], "", 0):
        output = RunOutput(run_id="r", agent_id="a", final=Message.assistant("text"), result=typed)
        assert child_outcomes.finished(CALL, output, LINK, typed=False).result == typed


def test_a_childs_failure_keeps_its_chain() -> None:
    """Three levels of causes survive the hop from child to parent (SR-87)."""
    deep = ToolError.with_cause("planner failed", ToolError.with_cause("no model", KeyError("key")))
    error = child_outcomes.failed(CALL, deep, LINK, None).error
    assert [link.message for link in error.chain()] == [
        "the agent run r/c1 failed",
        "planner failed",
        "no model",
        "'key'",
    ]
    assert child_outcomes.failed(CALL, deep, LINK, None).run_link == LINK


def test_a_final_turn_that_fails_ends_in_a_clear_answer() -> None:
    """The run ends with the limit and the reason, not with an error."""
    message = outcomes.unanswered("the planner failed", "The run has used all of its tool calls.")
    assert message.role == "assistant"
    assert message.text == (
        "The run has used all of its tool calls. The run ended without an answer: the planner failed"
    )

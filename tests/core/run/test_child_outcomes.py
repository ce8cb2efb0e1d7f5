"""Child outcomes: the end of a child run as the result of its parent's call (SR-53, SR-87)."""

import pytest

from sojourn import Message, RunOutput, ToolError, ToolRequest, ToolResult, Usage
from sojourn.contracts import Artifact, RunLink, ToolTelemetry
from sojourn.contracts.run import Spent
from sojourn.core.run import child_runs
from sojourn.core.run.child_runs import MALFORMED_ANSWER

CALL = ToolRequest(name="a.b.c", payload={"x": 1}, tool_call_id="c1")
LINK = RunLink(run_id="r/c1", agent_id="a.child", parent_run_id="r", parent_tool_call_id="c1")
BELOW = RunLink(run_id="r/c1/d", agent_id="a.below", parent_run_id="r/c1", parent_tool_call_id="d")
SPENT = Spent(
    children_count=2,
    telemetry=ToolTelemetry(attempts=2, input_tokens=9),
    artifacts=[Artifact(kind="own", ref="1"), Artifact(kind="below", ref="2", run_link=BELOW)],
)


def test_a_child_runs_output_becomes_the_calls_result() -> None:
    """The result has the answer, the sum of plans and calls, the number of calls and the link to the run (SR-53)."""
    output = RunOutput(
        run_id="r/c1",
        agent_id="a.child",
        final=Message.assistant("42"),
        children_count=7,
        telemetry=ToolTelemetry(duration_ms=9, attempts=7, input_tokens=1),
        usage=Usage(
            input_tokens=100, output_tokens=20, cached_tokens=50, cache_write_tokens=7, cost=0.5, model="m-1"
        ),
    )
    assert child_runs.result_of_output(CALL, output, LINK, typed=False) == ToolResult(
        name="a.b.c",
        tool_call_id="c1",
        result="42",
        children_count=7,
        run_link=LINK,
        telemetry=ToolTelemetry(
            duration_ms=9, attempts=7, input_tokens=101, output_tokens=20, cost=0.5, model="m-1"
        ),
    )


def test_a_child_runs_typed_answer_comes_before_its_text() -> None:
    """A typed answer becomes the result, even an empty one."""
    for typed in ({"n": 1}, [], "", 0):
        output = RunOutput(run_id="r", agent_id="a", final=Message.assistant("text"), result=typed)
        assert child_runs.result_of_output(CALL, output, LINK, typed=False).result == typed


def test_a_childs_failure_keeps_its_chain() -> None:
    """The three causes of a child run's failure are in the parent's result (SR-87)."""
    deep = ToolError.with_cause("planner failed", ToolError.with_cause("no model", KeyError("key")))
    result = child_runs.result_of_failure(CALL, deep, LINK, None)
    error = result.error
    assert [link.message for link in error.chain()] == [
        "the agent run r/c1 failed",
        "planner failed",
        "no model",
        "KeyError: 'key'",
    ]
    assert (result.run_link, result.retry_hint, result.telemetry) == (LINK, None, None)


def test_a_failed_child_runs_spending_is_in_the_result() -> None:
    """The result has the failed run's calls, telemetry and artifacts, each with a link to the run that has its data."""
    result = child_runs.result_of_failure(CALL, ToolError.new("x"), LINK, SPENT)
    assert (result.children_count, result.telemetry) == (2, SPENT.telemetry)
    assert [(one.kind, one.run_link) for one in result.artifacts] == [("own", LINK), ("below", BELOW)]


def test_a_malformed_answer_has_a_hint() -> None:
    """A child run that failed with the code `MalformedAnswer` gives the hint `malformed_response`."""
    result = child_runs.result_of_failure(CALL, ToolError.new("x", code=MALFORMED_ANSWER), LINK, None)
    assert result.error.message == "the agent run r/c1 gave no answer that fits"
    assert result.retry_hint.reason == "malformed_response"


WHY = ToolError.new("The run's tokens are used up.", code="max_tokens")


@pytest.mark.parametrize(
    ("text", "why", "message"),
    [
        ("so far", WHY, 'the agent run r/c1 gave up; it said "so far"'),
        ("", WHY, "the agent run r/c1 gave up"),
        # After a failed last turn, the text only repeats why it failed.
        ("so far", ToolError.with_cause("x", KeyError("k")), "the agent run r/c1 gave up"),
    ],
    ids=["with a text", "without a text", "with a failed last turn"],
)
def test_a_child_that_gave_up_is_an_error(text: str, why: ToolError, message: str) -> None:
    """The error has the limit as its cause, the run's text and a hint; a typed answer does not make it a success."""
    output = RunOutput(
        run_id="r/c1",
        agent_id="a.child",
        final=Message.assistant(text),
        result={"n": 1},
        error=why,
        children_count=5,
    )
    result = child_runs.result_of_output(CALL, output, LINK, typed=True)
    assert (result.result, result.error.code, result.children_count) == (None, "gave_up", 5)
    assert (result.error.message, result.error.cause) == (message, why)
    assert result.retry_hint.tool == CALL.name


def test_a_child_runs_text_in_an_error_is_bounded() -> None:
    """An error that repeats the child run's text has at most 2,000 characters."""
    output = RunOutput(run_id="r/c1", agent_id="a", final=Message.assistant("x" * 10**6), error=WHY)
    result = child_runs.result_of_output(CALL, output, LINK, typed=False)
    assert len(result.error.message) == 2_000


def test_an_output_without_an_error_is_an_answer() -> None:
    """An output of an earlier version, with a `reason` alone, is an answer; where a typed one is expected, it is malformed."""
    output = RunOutput(run_id="r/c1", agent_id="a", final=Message.assistant("42"), reason="max_tokens")
    assert child_runs.result_of_output(CALL, output, LINK, typed=False).result == "42"
    assert child_runs.result_of_output(CALL, output, LINK, typed=True).error.cause.code == MALFORMED_ANSWER

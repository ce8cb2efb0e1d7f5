"""What somebody gave by hand as the result of an activity: a plan or result that is none, figures that are none."""

import pytest

from sojourn import (
    AwaitClarification,
    Message,
    RetryReason,
    ToolError,
    ToolRequest,
    ToolResult,
    ToolTelemetry,
    Usage,
)
from sojourn.contracts.tasks import PlanOutcome
from sojourn.core.run.by_hand import no_plan, no_result, plan_fault, right_result, right_usage
from sojourn.core.values.unread import Unread

CALL = ToolRequest(name="a.b.c", tool_call_id="c1")
DONE = Message.assistant("done")


@pytest.mark.parametrize("final_turn", [True, False])
@pytest.mark.parametrize(
    "plan",
    [
        PlanOutcome(final=DONE),
        PlanOutcome(failure=ToolError.new("no")),
        PlanOutcome(fault="no"),
        PlanOutcome(await_=AwaitClarification(question="?")),
        PlanOutcome(wait_="PT1S"),
        PlanOutcome(calls=[CALL, CALL.model_copy(update={"tool_call_id": "c2"})]),
    ],
    ids=["answer", "failure", "fault", "question", "wait", "calls"],
)
def test_a_plan_that_holds_something_can_be_carried_out(plan: PlanOutcome, final_turn: bool) -> None:
    """What a planner gives was judged in its activity."""
    assert plan_fault(plan, final_turn=final_turn) is None


@pytest.mark.parametrize(("overtime", "final_turn", "is_fault"), [(1, 0, 0), (1, 1, 1), (0, 0, 1), (0, 1, 1)])
def test_a_plan_that_holds_nothing_came_too_late_or_is_none(
    overtime: bool, final_turn: bool, is_fault: bool
) -> None:
    """Only time that was used up excuses it, and only where the last plan is still to come."""
    fault = plan_fault(PlanOutcome(overtime=bool(overtime)), final_turn=bool(final_turn))
    assert fault == ("it holds nothing to do" if is_fault else None)


@pytest.mark.parametrize(
    "ids", [["c1", "c1"], [""], ["c 1"], ["c" * 65]], ids=["twice", "none", "odd", "long"]
)
def test_calls_that_cannot_be_told_apart_are_no_plan(ids: list[str]) -> None:
    """Each answer has to find its call."""
    calls = [CALL.model_copy(update={"tool_call_id": id}) for id in ids]
    assert plan_fault(PlanOutcome(calls=calls), final_turn=False)


def test_what_cannot_be_read_is_no_plan_and_no_result() -> None:
    """The planner is corrected, and the call answered; nobody knows whether it was carried out."""
    assert plan_fault(Unread("no JSON"), final_turn=False) == "no JSON"
    plan = no_plan("no JSON")
    assert "no JSON" in (plan.fault or "")
    assert plan.attempt == 0  # no worker's memory of a plan is taken for it
    result = no_result(CALL, "no JSON")
    assert (result.name, result.tool_call_id) == ("a.b.c", "c1")
    assert result.error.code == result.retry_hint.reason == RetryReason.MALFORMED_RESPONSE


@pytest.mark.parametrize("figure", [-1, 2**60], ids=["below zero", "endless"])
def test_a_figure_that_is_none_counts_as_nothing(figure: int) -> None:
    """Each by itself; the others stay, and what is right is not touched."""
    good = ToolResult(
        result=1, children_count=2, telemetry=ToolTelemetry(attempts=3, input_tokens=4, cost=0.5)
    )
    assert right_result(good) is good
    for name in ("duration_ms", "attempts", "input_tokens", "output_tokens", "cost"):
        bad = good.model_copy(update={"telemetry": good.telemetry.model_copy(update={name: figure})})
        right = right_result(bad)
        assert right.telemetry == good.telemetry.model_copy(update={name: None if name == "cost" else 0})
        assert right.children_count == 2
    assert right_result(good.model_copy(update={"children_count": figure})).children_count == 0


@pytest.mark.parametrize("name", ["input_tokens", "output_tokens", "cached_tokens", "cost"])
def test_what_a_plan_used_gives_nothing_back(name: str) -> None:
    """Nor does it use up all there is."""
    good = Usage(input_tokens=1, output_tokens=2, cached_tokens=1, cost=0.5, model="m")
    assert right_usage(good) is good
    for figure in (-1, 2**60):
        wrong = right_usage(good.model_copy(update={name: figure}))
        assert wrong == good.model_copy(update={name: None if name == "cost" else 0})

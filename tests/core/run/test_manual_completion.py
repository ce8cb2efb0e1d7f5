"""Activity results that were completed by hand: invalid plans, invalid results and invalid figures."""

import pytest

from sojourn import (
    AwaitClarification,
    Message,
    RetryReason,
    ToolError,
    ToolRequest,
    ToolResult,
    Usage,
)
from sojourn.contracts import ToolTelemetry
from sojourn.contracts.tasks import PlanOutcome
from sojourn.core.run.outcomes import (
    correct_result,
    correct_usage,
    plan_fault,
    unusable_plan,
    unusable_result,
)
from sojourn.values.undecodable import Undecodable

CALL = ToolRequest(name="a.b.c", tool_call_id="c1")
DONE = Message.assistant("done")


def test_a_plan_with_a_decision_has_no_fault() -> None:
    """Every outcome that `PlanActivity` can return is accepted, in a final turn too."""
    final_turns = [True, False]
    plans = [
        PlanOutcome(final=DONE),
        PlanOutcome(failure=ToolError.new("no")),
        PlanOutcome(fault="no"),
        PlanOutcome(await_=AwaitClarification(question="?")),
        PlanOutcome(wait_="PT1S"),
        PlanOutcome(calls=[CALL, CALL.model_copy(update={"tool_call_id": "c2"})]),
    ]
    assert [
        (final_turn, plan, found)
        for plan in plans
        for final_turn in final_turns
        if (found := plan_fault(plan, final_turn=final_turn)) is not None
    ] == []


@pytest.mark.parametrize(("overtime", "final_turn", "is_fault"), [(1, 0, 0), (1, 1, 1), (0, 0, 1), (0, 1, 1)])
def test_an_empty_plan_is_a_fault_unless_it_came_too_late(
    overtime: bool, final_turn: bool, is_fault: bool
) -> None:
    """An empty plan is excused only by overtime, and only outside the final turn."""
    fault = plan_fault(PlanOutcome(overtime=bool(overtime)), final_turn=bool(final_turn))
    assert fault == ("it holds nothing to do" if is_fault else None)


@pytest.mark.parametrize(
    "ids", [["c1", "c1"], [""], ["c 1"], ["c" * 65]], ids=["twice", "none", "odd", "long"]
)
def test_calls_with_repeated_or_invalid_ids_are_a_fault(ids: list[str]) -> None:
    """Each call of a plan has a valid id of its own, by which its result is found."""
    calls = [CALL.model_copy(update={"tool_call_id": id}) for id in ids]
    assert plan_fault(PlanOutcome(calls=calls), final_turn=False)


def test_an_unreadable_result_becomes_a_fault_or_an_error() -> None:
    """In place of a plan it becomes a planner fault, in place of a tool's result `malformed_response`."""
    assert plan_fault(Undecodable("no JSON"), final_turn=False) == "no JSON"
    plan = unusable_plan("no JSON")
    assert "no JSON" in (plan.fault or "")
    assert plan.attempt == 0  # so that no worker's cached plan matches it
    result = unusable_result(CALL, "no JSON")
    assert (result.name, result.tool_call_id) == ("a.b.c", "c1")
    assert result.error.code == result.retry_hint.reason == RetryReason.MALFORMED_RESPONSE


@pytest.mark.parametrize("figure", [-1, 2**60], ids=["below zero", "endless"])
def test_an_invalid_figure_counts_as_zero(figure: int) -> None:
    """Each invalid count becomes 0 and an invalid cost None; the other figures stay, and a valid result is the same object."""
    good = ToolResult(
        result=1, children_count=2, telemetry=ToolTelemetry(attempts=3, input_tokens=4, cost=0.5)
    )
    assert correct_result(good) is good
    for name in ("duration_ms", "attempts", "input_tokens", "output_tokens", "cost"):
        bad = good.model_copy(update={"telemetry": good.telemetry.model_copy(update={name: figure})})
        right = correct_result(bad)
        assert right.telemetry == good.telemetry.model_copy(update={name: None if name == "cost" else 0})
        assert right.children_count == 2
    assert correct_result(good.model_copy(update={"children_count": figure})).children_count == 0


def test_an_invalid_figure_of_a_plans_usage_counts_as_zero(subtests: pytest.Subtests) -> None:
    """A negative or huge figure of a plan's usage neither gives back nor uses up a limit."""
    rows = ["input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "cost"]
    for name in rows:
        with subtests.test(name=name):
            good = Usage(input_tokens=1, output_tokens=2, cached_tokens=1, cost=0.5, model="m")
            assert correct_usage(good) is good
            for figure in (-1, 2**60):
                wrong = correct_usage(good.model_copy(update={name: figure}))
                assert wrong == good.model_copy(update={name: None if name == "cost" else 0})

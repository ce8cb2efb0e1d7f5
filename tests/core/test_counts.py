"""Counts: what a run has done, what its limits leave, and when it must answer (ME-18 to ME-25)."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn import Caps, RunPolicy, ToolError, ToolResult, ToolTelemetry, Usage
from sojourn.contracts.tasks import Limits
from sojourn.core.counts import Counts, add_usage, caps_left, exhausted, limits_of, settle

GOOD = ToolResult(result=1)
BAD = ToolResult(error=ToolError.new("no"))


def test_a_step_is_counted() -> None:
    """A step adds its executed calls, a round of the run and of the turn, and the calls of child runs (D-15)."""
    child = ToolResult(result="x", children_count=4)
    counts = settle(Counts(), [GOOD, child])
    assert (counts.tool_calls, counts.rounds, counts.turn_rounds, counts.children_count) == (2, 1, 1, 6)


def test_the_streak_counts_steps_that_failed_entirely() -> None:
    """A step in which every call failed counts one, a success resets; a step with no executed call does too."""
    streaks, counts = [], Counts()
    for step in ([BAD, BAD], [BAD], [BAD, GOOD], [BAD], []):
        counts = settle(counts, step)
        streaks.append(counts.failed_steps)
    assert streaks == [1, 2, 0, 1, 0]


def test_telemetry_is_summed_over_executions() -> None:
    """Times, attempts, tokens and costs add up; a call that tells nothing took one attempt and no time."""
    first = ToolTelemetry(duration_ms=10, attempts=3, input_tokens=5, output_tokens=1, cost=0.5)
    second = ToolTelemetry(duration_ms=20, input_tokens=1, model="m-1", cost=0.25)
    third = ToolTelemetry(model="m-2")
    results = [ToolResult(telemetry=told) for told in (first, second, third, None)]
    assert settle(Counts(), results).telemetry == ToolTelemetry(
        duration_ms=30, attempts=6, input_tokens=6, output_tokens=1, model="m-1", cost=0.75
    )
    assert settle(Counts(), [GOOD]).telemetry == ToolTelemetry(attempts=1)


@given(st.lists(st.lists(st.sampled_from([GOOD, BAD]), max_size=4), max_size=8))
def test_counts_are_sums(steps: list[list[ToolResult]]) -> None:
    """Step by step or looked at as a whole, the counts are the same."""
    counts = Counts()
    for step in steps:
        counts = settle(counts, step)
    assert counts.tool_calls == counts.children_count == sum(map(len, steps))
    assert counts.rounds == len(steps)
    assert counts.telemetry.attempts == counts.tool_calls


def test_usage_is_summed_over_plans() -> None:
    """Tokens and costs of models add up; a plan that tells none adds none."""
    first = Usage(input_tokens=10, output_tokens=2, cached_tokens=4, model="m-1")
    second = Usage(input_tokens=1, cost=0.5, model="m-2")
    total = add_usage(add_usage(add_usage(Usage(), first), None), second)
    assert total == Usage(input_tokens=11, output_tokens=2, cached_tokens=4, cost=0.5, model="m-1")


def test_what_is_left_is_never_below_nothing() -> None:
    """Caps are what the policy leaves; no limit leaves no limit."""
    policy = RunPolicy(max_tool_calls=3, max_tool_rounds=2)
    assert caps_left(policy, Counts()) == Caps(tool_calls=3, rounds=2, failed_steps=3)
    counts = Counts(tool_calls=5, turn_rounds=9, failed_steps=7)
    assert caps_left(policy, counts) == Caps(tool_calls=0, rounds=0, failed_steps=0)
    free = RunPolicy(max_consecutive_failed_tool_calls=None)
    assert caps_left(free, counts) == Caps(tool_calls=None, rounds=11, failed_steps=None)


def test_rounds_are_left_for_the_turn_and_calls_for_the_run() -> None:
    """A new turn has all of its rounds again; repetition driven by the user is not limited (ME-20, ME-25)."""
    counts = Counts(tool_calls=50, rounds=50, turn_rounds=0)
    assert caps_left(RunPolicy(), counts).rounds == 20
    assert caps_left(RunPolicy(max_tool_calls=60), counts).tool_calls == 10


def test_limits_are_the_policys() -> None:
    """What later plans are told is what the recorded policy says, and its defaults are those of the wire."""
    assert limits_of(RunPolicy()) == Limits()
    policy = RunPolicy(
        max_calls_per_step=1,
        plan_timeout=timedelta(seconds=2),
        tool_timeout=timedelta(seconds=3),
        interrupts_allowed=True,
        max_depth=4,
    )
    assert limits_of(policy).model_dump() == {name: getattr(policy, name) for name in Limits.model_fields}


def test_twenty_rounds_run_and_the_twenty_first_does_not() -> None:
    """The cap runs out when a call was refused for it, not before (ME-18, ME-24)."""
    counts = Counts(rounds=20, turn_rounds=20)
    assert exhausted(RunPolicy(), counts, None) is None
    finalize = exhausted(RunPolicy(), counts, "max_tool_rounds")
    assert finalize is not None
    assert finalize.reason == "max_tool_rounds"
    assert "maximum tool depth of this turn was exceeded" in finalize.message


def test_calls_that_are_used_up_end_the_run() -> None:
    """A call refused for `max_tool_calls` leads to the final turn."""
    finalize = exhausted(RunPolicy(max_tool_calls=1), Counts(), "max_tool_calls")
    assert finalize is not None
    assert finalize.reason == "max_tool_calls"


@pytest.mark.parametrize("refused", ["max_calls_per_step", "plan_size", None])
def test_a_plan_that_asks_for_too_much_at_once_goes_on(refused: str | None) -> None:
    """What one plan may not do, the next may: the run goes on."""
    assert exhausted(RunPolicy(), Counts(), refused) is None


def test_the_failure_streak_ends_the_run_by_itself() -> None:
    """After three failed steps the next turn is the last (ME-4); with no limit never."""
    assert exhausted(RunPolicy(), Counts(failed_steps=2), None) is None
    finalize = exhausted(RunPolicy(), Counts(failed_steps=3), None)
    assert finalize is not None
    assert finalize.reason == "failure_streak"
    assert "last 3 steps" in finalize.message
    assert exhausted(RunPolicy(max_consecutive_failed_tool_calls=None), Counts(failed_steps=99), None) is None

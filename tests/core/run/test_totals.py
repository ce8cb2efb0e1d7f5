"""Totals of a run, what is left of its limits, and when a turn is the last (ME-18 to ME-25)."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn import ApprovalPolicy, RetryHint, RunPolicy, ToolError, ToolResult, Usage
from sojourn.contracts import ToolTelemetry
from sojourn.contracts.run_policy import Limits
from sojourn.core.awaits.factories import lacks_fields
from sojourn.core.run.limits import (
    caps_left,
    exhausted_limit,
    finalize,
    limits_of,
    lower_policy,
    stricter_caps,
)
from sojourn.core.run.totals import RunTotals, add_usage, count_step
from sojourn.policy import Caps

GOOD = ToolResult(result=1)
BAD = ToolResult(error=ToolError.new("no"))
LACKING = BAD.model_copy(
    update={"retry_hint": RetryHint(reason="missing_fields", tool="a.b.c", missing_fields=["site"])}
)
SECOND = timedelta(seconds=1)


def test_a_step_is_counted() -> None:
    """A step adds its executed calls, one round of the run and of the turn, and the calls of child runs."""
    child = ToolResult(result="x", children_count=4)
    counts = count_step(RunTotals(), [GOOD, child])
    assert (counts.tool_calls, counts.rounds, counts.turn_rounds, counts.children_count) == (2, 1, 1, 6)


def test_the_streak_counts_steps_that_failed_entirely() -> None:
    """A step in which every call failed counts, a step with a success resets, and an empty step changes nothing."""
    streaks, counts = [], RunTotals()
    for step in ([BAD, BAD], [BAD], [BAD, GOOD], [BAD], []):
        counts = count_step(counts, step)
        streaks.append(counts.failed_steps)
    assert streaks == [1, 2, 0, 1, 1]


def test_a_denied_call_counts_but_is_no_failure() -> None:
    """A call that a person denied uses up `max_tool_calls`, or an agent could ask for ever, but is no failed call."""
    denied = ToolResult(error=ToolError.new("no", code="denied"))
    counts = count_step(RunTotals(failed_steps=1), [denied, denied])
    assert (counts.tool_calls, counts.children_count, counts.failed_steps) == (2, 2, 1)
    assert count_step(counts, [denied, BAD]).failed_steps == 2


def test_telemetry_is_summed_over_executions() -> None:
    """Times, attempts, tokens and costs add up; a result without telemetry counts as one attempt."""
    first = ToolTelemetry(duration_ms=10, attempts=3, input_tokens=5, output_tokens=1, cost=0.5)
    second = ToolTelemetry(duration_ms=20, input_tokens=1, model="m-1", cost=0.25)
    third = ToolTelemetry(model="m-2")
    results = [ToolResult(telemetry=telemetry) for telemetry in (first, second, third, None)]
    assert count_step(RunTotals(), results).telemetry == ToolTelemetry(
        duration_ms=30, attempts=6, input_tokens=6, output_tokens=1, model="m-1", cost=0.75
    )
    assert count_step(RunTotals(), [GOOD]).telemetry == ToolTelemetry(attempts=1)


@given(st.lists(st.lists(st.sampled_from([GOOD, BAD]), max_size=4), max_size=8))
def test_counts_are_sums(steps: list[list[ToolResult]]) -> None:
    """The totals after any steps are the numbers of calls and steps."""
    counts = RunTotals()
    for step in steps:
        counts = count_step(counts, step)
    assert counts.tool_calls == counts.children_count == sum(map(len, steps))
    assert counts.rounds == len(steps)
    assert counts.telemetry.attempts == counts.tool_calls


def test_usage_is_summed_over_plans() -> None:
    """Tokens and costs of plans add up; a plan without usage adds nothing."""
    first = Usage(input_tokens=10, output_tokens=2, cached_tokens=4, cache_write_tokens=3, model="m-1")
    second = Usage(input_tokens=1, cost=0.5, model="m-2")
    total = add_usage(add_usage(add_usage(Usage(), first), None), second)
    assert total == Usage(
        input_tokens=11, output_tokens=2, cached_tokens=4, cache_write_tokens=3, cost=0.5, model="m-1"
    )


def test_caps_are_never_negative() -> None:
    """Caps are the limits minus the totals, at least zero; without a limit the cap is None."""
    policy = RunPolicy(max_tool_calls=3, max_tool_rounds=2, time_budget=SECOND, max_tokens=5, max_cost=0.5)
    assert caps_left(policy, RunTotals()) == Caps(
        tool_calls=3, rounds=2, failed_steps=6, time=SECOND, tokens=5, cost=0.5
    )
    usage = Usage(input_tokens=9, cost=1.0)
    counts = RunTotals(children_count=5, turn_rounds=9, failed_steps=7, usage=usage)
    nothing = Caps(tool_calls=0, rounds=0, failed_steps=0, time=timedelta(0), tokens=0, cost=0.0)
    assert caps_left(policy, counts, 2 * SECOND) == nothing
    free = RunPolicy(max_consecutive_failed_tool_calls=None)
    assert caps_left(free, counts, SECOND) == Caps(tool_calls=None, rounds=11, failed_steps=None)


def test_rounds_count_per_turn_and_calls_per_run() -> None:
    """A new turn has all rounds left, since a user may ask any number of times; calls count for the run (ME-20, ME-25)."""
    counts = RunTotals(tool_calls=50, children_count=50, rounds=50, turn_rounds=0)
    assert caps_left(RunPolicy(), counts).rounds == 20
    assert caps_left(RunPolicy(max_tool_calls=60), counts).tool_calls == 10


def test_child_runs_use_up_the_parents_limits() -> None:
    """Calls, tokens and cost of plans, tools and child runs count against the same limits."""
    spent = ToolTelemetry(input_tokens=30, output_tokens=4, cost=0.25)
    child = ToolResult(result="x", children_count=4, telemetry=spent)
    counts = count_step(RunTotals(usage=Usage(input_tokens=5, output_tokens=1, cost=0.5)), [GOOD, child])
    left = caps_left(RunPolicy(max_tool_calls=10, max_tokens=100, max_cost=1.0), counts)
    assert (left.tool_calls, left.tokens, left.cost) == (4, 60, 0.25)


def test_limits_are_the_policys() -> None:
    """`limits_of` takes each limit from the policy, and a default policy gives default limits."""
    assert limits_of(RunPolicy()) == Limits()
    policy = RunPolicy(
        max_calls_per_step=1,
        plan_timeout=timedelta(seconds=2),
        tool_timeout=timedelta(seconds=3),
        finalizer_grace=timedelta(seconds=4),
        interrupts_allowed=True,
        on_missing_fields="finalize",
        approval=ApprovalPolicy.read_only(),
        allowed_tools=["a.b.*"],
        allowed_tags=["read"],
        denied_tools=["a.b.c"],
        denied_tags=["write"],
        max_depth=4,
    )
    assert dict(limits_of(policy)) == {name: getattr(policy, name) for name in Limits.model_fields}


def test_the_round_limit_is_reached_by_a_refused_call() -> None:
    """Twenty rounds do not reach the limit; a call that is refused for it does (ME-18, ME-24)."""
    counts = RunTotals(rounds=20, turn_rounds=20)
    assert exhausted_limit(RunPolicy(), counts, None) is None
    finalize = exhausted_limit(RunPolicy(), counts, "max_tool_rounds")
    assert finalize is not None
    assert finalize.reason == "max_tool_rounds"
    assert "maximum tool depth of this turn was exceeded" in finalize.message


def test_a_call_over_max_tool_calls_makes_the_next_turn_the_last() -> None:
    """A call that was refused for `max_tool_calls` leads to the final turn."""
    finalize = exhausted_limit(RunPolicy(max_tool_calls=1), RunTotals(), "max_tool_calls")
    assert finalize is not None
    assert finalize.reason == "max_tool_calls"


@pytest.mark.parametrize("refused", ["max_calls_per_step", "plan_size", None])
def test_a_limit_of_one_plan_does_not_end_the_run(refused: str | None) -> None:
    """Calls that were refused for the size of one plan lead to no final turn."""
    assert exhausted_limit(RunPolicy(), RunTotals(), refused) is None


def test_six_failed_steps_make_the_next_turn_the_last() -> None:
    """After six failed steps the next turn is the last, unless the policy has another limit, or none."""
    assert exhausted_limit(RunPolicy(), RunTotals(failed_steps=5), None) is None
    finalize = exhausted_limit(RunPolicy(), RunTotals(failed_steps=6), None)
    assert finalize is not None
    assert finalize.reason == "failure_streak"
    assert finalize.message == "Every call of the last 6 steps failed."
    first = exhausted_limit(RunPolicy(max_consecutive_failed_tool_calls=1), RunTotals(failed_steps=1), None)
    assert first is not None
    assert first.message == "Every call of the last step failed."
    assert (
        exhausted_limit(RunPolicy(max_consecutive_failed_tool_calls=None), RunTotals(failed_steps=99), None)
        is None
    )


def test_used_up_tokens_or_cost_make_the_next_turn_the_last(subtests: pytest.Subtests) -> None:
    """The next turn is the last once tokens or cost reach their limit; an unknown cost counts as none."""
    rows = [
        ({"max_tokens": 10}, Usage(input_tokens=9), None),
        ({"max_tokens": 10}, Usage(input_tokens=5, output_tokens=5), "max_tokens"),
        ({"max_tokens": 0}, Usage(), "max_tokens"),
        ({"max_cost": 1.0}, Usage(cost=0.75), None),
        ({"max_cost": 1.0}, Usage(cost=1.0), "max_cost"),
        ({"max_cost": 1.0}, Usage(input_tokens=99), None),
        ({}, Usage(input_tokens=10**9, cost=1e6), None),
    ]
    for limits, usage, reason in rows:
        with subtests.test(limits=limits, usage=usage, reason=reason):
            ended = exhausted_limit(RunPolicy(**limits), RunTotals(usage=usage), None)
            assert (ended and ended.reason) == reason


def test_missing_fields_end_the_run_where_the_policy_says_so(subtests: pytest.Subtests) -> None:
    """A call that lacks fields makes the next turn the last only with `on_missing_fields="finalize"`."""
    rows = [
        ("finalize", [GOOD, LACKING, GOOD], True),
        ("finalize", [GOOD, BAD], False),
        ("finalize", [], False),
        ("resume", [LACKING], False),
        ("await_clarification", [LACKING], False),
    ]
    for policy, results, ends in rows:
        with subtests.test(policy=policy, results=results, ends=ends):
            ended = exhausted_limit(RunPolicy(on_missing_fields=policy), RunTotals(), None, results)
            assert (ended.reason if ended else None) == ("missing_fields" if ends else None)


def test_the_limit_that_refused_a_call_is_the_first_reason() -> None:
    """Of several reached limits, the one that refused a call comes first, then tokens, cost, failures and missing fields."""
    policy = RunPolicy(max_tokens=0, max_cost=0, on_missing_fields="finalize")
    counts = RunTotals(failed_steps=6)
    reasons = []
    for refused, changes in (
        ("max_tool_calls", {}),
        (None, {}),
        (None, {"max_tokens": None}),
        (None, {"max_tokens": None, "max_cost": None}),
        (None, {"max_tokens": None, "max_cost": None, "max_consecutive_failed_tool_calls": None}),
    ):
        ended = exhausted_limit(policy.model_copy(update=changes), counts, refused, [LACKING])
        reasons.append(ended.reason if ended else None)
    assert reasons == ["max_tool_calls", "max_tokens", "max_cost", "failure_streak", "missing_fields"]


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("time_budget", "time budget of 0:00:01 is used up."),
        ("missing_fields", "A call lacks fields that nobody gave."),
    ],
)
def test_the_notice_says_what_ran_out(reason: str, said: str) -> None:
    """The message names the limit, and the notice for the planner adds the instruction to answer."""
    notice = finalize(RunPolicy(time_budget=SECOND), reason)
    assert notice.reason == reason
    assert notice.message.endswith(said)
    assert notice.instruction.endswith("nswer with what you know.") or "Answer now" in notice.instruction
    assert notice.notice == f"{notice.message} {notice.instruction}"


@pytest.mark.parametrize(("result", "lacks"), [(GOOD, False), (BAD, False), (LACKING, True)])
def test_a_call_lacks_fields_when_its_hint_names_some(result: ToolResult, lacks: bool) -> None:
    """`lacks_fields` is true for a result whose hint has missing fields."""
    assert lacks_fields(result) is lacks


# Caps of a policy engine.

CAPS = {
    "tool_calls": st.integers(0, 30),
    "rounds": st.integers(0, 30),
    "failed_steps": st.integers(0, 5),
    "time": st.integers(0, 30).map(lambda n: n * SECOND),
    "tokens": st.integers(0, 300),
    "cost": st.integers(0, 64).map(lambda n: n / 16),
}
ANY_CAPS = st.fixed_dictionaries(
    {}, optional={name: st.none() | values for name, values in CAPS.items()}
).map(lambda given: Caps(**given))
POLICIES = st.builds(
    RunPolicy,
    max_tool_calls=st.none() | st.integers(0, 30),
    max_tool_rounds=st.integers(1, 30),
    max_consecutive_failed_tool_calls=st.none() | st.integers(1, 5),
    time_budget=st.none() | st.integers(1, 30).map(lambda n: n * SECOND),
    max_tokens=st.none() | st.integers(0, 300),
    max_cost=st.none() | st.integers(0, 64).map(lambda n: n / 16),
)
COUNTS = st.builds(
    RunTotals,
    children_count=st.integers(0, 30),
    turn_rounds=st.integers(0, 30),
    failed_steps=st.integers(0, 5),
    usage=st.builds(Usage, input_tokens=st.integers(0, 300), cost=st.integers(0, 64).map(lambda n: n / 16)),
)


def less(one, other):
    return other if one is None else one if other is None else min(one, other)


@given(POLICIES, ANY_CAPS, COUNTS, st.integers(0, 30).map(lambda n: n * SECOND))
def test_a_lowered_policy_leaves_the_smaller_caps(
    policy, caps: Caps, counts: RunTotals, spent: timedelta
) -> None:
    """After lowering, each cap is the smaller of the cap before and the engine's; failed steps are not lowered."""
    before, after = (caps_left(p, counts, spent) for p in (policy, lower_policy(policy, caps, counts, spent)))
    for name in CAPS:
        wanted = getattr(caps, name) if name != "failed_steps" else None
        assert getattr(after, name) == less(getattr(before, name), wanted)


@given(POLICIES, ANY_CAPS, COUNTS)
def test_lowering_is_idempotent(policy, caps: Caps, counts: RunTotals) -> None:
    """Applying the same caps again, with the same totals, changes nothing."""
    once = lower_policy(policy, caps, counts, SECOND)
    assert lower_policy(once, caps, counts, SECOND) == once


def test_absent_caps_lower_nothing() -> None:
    """Only the caps that the engine set are lowered; a default cap changes no limit."""
    policy = RunPolicy(max_consecutive_failed_tool_calls=9)
    assert lower_policy(policy, Caps(), RunTotals(), SECOND) is policy
    assert lower_policy(policy, Caps(tool_calls=2), RunTotals(children_count=3), SECOND) == policy.model_copy(
        update={"max_tool_calls": 5}
    )


def test_a_lowered_limit_is_the_total_plus_the_cap() -> None:
    """Rounds are added to the turn's, not the run's; calls, tokens and cost to totals that include child runs."""
    spent = ToolTelemetry(input_tokens=3, output_tokens=4, cost=0.25)
    counts = RunTotals(
        tool_calls=1, children_count=3, rounds=9, turn_rounds=2, usage=Usage(input_tokens=10), telemetry=spent
    )
    policy = RunPolicy(max_tool_calls=99, max_tool_rounds=99, max_tokens=99, max_cost=99)
    caps = Caps(tool_calls=1, rounds=1, time=SECOND, tokens=1, cost=1)
    changed = lower_policy(policy, caps, counts, 7 * SECOND)
    assert (changed.max_tool_calls, changed.max_tool_rounds, changed.time_budget) == (4, 3, 8 * SECOND)
    assert (changed.max_tokens, changed.max_cost) == (18, 1.25)


@given(ANY_CAPS, ANY_CAPS)
def test_the_stricter_caps_are_the_smaller_ones(ours: Caps, theirs: Caps) -> None:
    """Each cap is the smaller of both, except failed steps, which stay."""
    both = stricter_caps(ours, theirs)
    for name in CAPS:
        wanted = getattr(theirs, name) if name != "failed_steps" else None
        assert getattr(both, name) == less(getattr(ours, name), wanted)
    assert stricter_caps(ours, None) is ours
    assert stricter_caps(both, theirs) == both

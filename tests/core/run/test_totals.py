"""Counts: what a run has done, what its limits leave, and when it must answer (ME-18 to ME-25)."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn import ApprovalPolicy, Caps, RetryHint, RunPolicy, ToolError, ToolResult, ToolTelemetry, Usage
from sojourn.contracts.run_policy import Limits
from sojourn.core.awaits.opened import lacks_fields
from sojourn.core.run.limits import caps_left, exhausted, finalize, limits_of, lowered, stricter_caps
from sojourn.core.run.totals import RunTotals, add_usage, settle

GOOD = ToolResult(result=1)
BAD = ToolResult(error=ToolError.new("no"))
LACKING = BAD.model_copy(
    update={"retry_hint": RetryHint(reason="missing_fields", tool="a.b.c", missing_fields=["site"])}
)
SECOND = timedelta(seconds=1)


def test_a_step_is_counted() -> None:
    """A step adds its executed calls, a round of the run and of the turn, and the calls of child runs (D-15)."""
    child = ToolResult(result="x", children_count=4)
    counts = settle(RunTotals(), [GOOD, child])
    assert (counts.tool_calls, counts.rounds, counts.turn_rounds, counts.children_count) == (2, 1, 1, 6)


def test_the_streak_counts_steps_that_failed_entirely() -> None:
    """A step in which every call failed counts one, a success resets; one in which nothing was tried changes nothing."""
    streaks, counts = [], RunTotals()
    for step in ([BAD, BAD], [BAD], [BAD, GOOD], [BAD], []):
        counts = settle(counts, step)
        streaks.append(counts.failed_steps)
    assert streaks == [1, 2, 0, 1, 1]


def test_telemetry_is_summed_over_executions() -> None:
    """Times, attempts, tokens and costs add up; a call that tells nothing took one attempt and no time."""
    first = ToolTelemetry(duration_ms=10, attempts=3, input_tokens=5, output_tokens=1, cost=0.5)
    second = ToolTelemetry(duration_ms=20, input_tokens=1, model="m-1", cost=0.25)
    third = ToolTelemetry(model="m-2")
    results = [ToolResult(telemetry=told) for told in (first, second, third, None)]
    assert settle(RunTotals(), results).telemetry == ToolTelemetry(
        duration_ms=30, attempts=6, input_tokens=6, output_tokens=1, model="m-1", cost=0.75
    )
    assert settle(RunTotals(), [GOOD]).telemetry == ToolTelemetry(attempts=1)


@given(st.lists(st.lists(st.sampled_from([GOOD, BAD]), max_size=4), max_size=8))
def test_counts_are_sums(steps: list[list[ToolResult]]) -> None:
    """Step by step or looked at as a whole, the counts are the same."""
    counts = RunTotals()
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
    policy = RunPolicy(max_tool_calls=3, max_tool_rounds=2, time_budget=SECOND, max_tokens=5, max_cost=0.5)
    assert caps_left(policy, RunTotals()) == Caps(
        tool_calls=3, rounds=2, failed_steps=3, time=SECOND, tokens=5, cost=0.5
    )
    usage = Usage(input_tokens=9, cost=1.0)
    counts = RunTotals(children_count=5, turn_rounds=9, failed_steps=7, usage=usage)
    nothing = Caps(tool_calls=0, rounds=0, failed_steps=0, time=timedelta(0), tokens=0, cost=0.0)
    assert caps_left(policy, counts, 2 * SECOND) == nothing
    free = RunPolicy(max_consecutive_failed_tool_calls=None)
    assert caps_left(free, counts, SECOND) == Caps(tool_calls=None, rounds=11, failed_steps=None)


def test_rounds_are_left_for_the_turn_and_calls_for_the_run() -> None:
    """A new turn has all of its rounds again; repetition driven by the user is not limited (ME-20, ME-25)."""
    counts = RunTotals(tool_calls=50, children_count=50, rounds=50, turn_rounds=0)
    assert caps_left(RunPolicy(), counts).rounds == 20
    assert caps_left(RunPolicy(max_tool_calls=60), counts).tool_calls == 10


def test_what_child_runs_did_is_spent_too() -> None:
    """Calls, tokens and money are those of the whole tree: plans, tools, and agents used as tools."""
    spent = ToolTelemetry(input_tokens=30, output_tokens=4, cost=0.25)
    child = ToolResult(result="x", children_count=4, telemetry=spent)
    counts = settle(RunTotals(usage=Usage(input_tokens=5, output_tokens=1, cost=0.5)), [GOOD, child])
    left = caps_left(RunPolicy(max_tool_calls=10, max_tokens=100, max_cost=1.0), counts)
    assert (left.tool_calls, left.tokens, left.cost) == (4, 60, 0.25)


def test_limits_are_the_policys() -> None:
    """What later plans are told is what the recorded policy says, and its defaults are those of the wire."""
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


def test_twenty_rounds_run_and_the_twenty_first_does_not() -> None:
    """The cap runs out when a call was refused for it, not before (ME-18, ME-24)."""
    counts = RunTotals(rounds=20, turn_rounds=20)
    assert exhausted(RunPolicy(), counts, None) is None
    finalize = exhausted(RunPolicy(), counts, "max_tool_rounds")
    assert finalize is not None
    assert finalize.reason == "max_tool_rounds"
    assert "maximum tool depth of this turn was exceeded" in finalize.message


def test_calls_that_are_used_up_end_the_run() -> None:
    """A call refused for `max_tool_calls` leads to the final turn."""
    finalize = exhausted(RunPolicy(max_tool_calls=1), RunTotals(), "max_tool_calls")
    assert finalize is not None
    assert finalize.reason == "max_tool_calls"


@pytest.mark.parametrize("refused", ["max_calls_per_step", "plan_size", None])
def test_a_plan_that_asks_for_too_much_at_once_goes_on(refused: str | None) -> None:
    """What one plan may not do, the next may: the run goes on."""
    assert exhausted(RunPolicy(), RunTotals(), refused) is None


def test_the_failure_streak_ends_the_run_by_itself() -> None:
    """After three failed steps the next turn is the last (ME-4); with no limit never."""
    assert exhausted(RunPolicy(), RunTotals(failed_steps=2), None) is None
    finalize = exhausted(RunPolicy(), RunTotals(failed_steps=3), None)
    assert finalize is not None
    assert finalize.reason == "failure_streak"
    assert "last 3 steps" in finalize.message
    assert (
        exhausted(RunPolicy(max_consecutive_failed_tool_calls=None), RunTotals(failed_steps=99), None) is None
    )


@pytest.mark.parametrize(
    ("limits", "usage", "reason"),
    [
        ({"max_tokens": 10}, Usage(input_tokens=9), None),
        ({"max_tokens": 10}, Usage(input_tokens=5, output_tokens=5), "max_tokens"),
        ({"max_tokens": 0}, Usage(), "max_tokens"),
        ({"max_cost": 1.0}, Usage(cost=0.75), None),
        ({"max_cost": 1.0}, Usage(cost=1.0), "max_cost"),
        ({"max_cost": 1.0}, Usage(input_tokens=99), None),
        ({}, Usage(input_tokens=10**9, cost=1e6), None),
    ],
    ids=str,
)
def test_tokens_and_money_run_out_when_they_are_spent(limits: dict, usage: Usage, reason: str | None) -> None:
    """The turn after they are used up is the last; a cost that nobody tells is none."""
    ended = exhausted(RunPolicy(**limits), RunTotals(usage=usage), None)
    assert (ended and ended.reason) == reason


@pytest.mark.parametrize(
    ("policy", "results", "ends"),
    [
        ("finalize", [GOOD, LACKING, GOOD], True),
        ("finalize", [GOOD, BAD], False),
        ("finalize", [], False),
        ("resume", [LACKING], False),
        ("await_clarification", [LACKING], False),
    ],
)
def test_missing_fields_end_the_run_where_the_policy_says_so(policy, results: list, ends: bool) -> None:
    """Only a call that lacks fields does, and only under that policy."""
    ended = exhausted(RunPolicy(on_missing_fields=policy), RunTotals(), None, results)
    assert (ended.reason if ended else None) == ("missing_fields" if ends else None)


def test_what_was_refused_is_the_first_reason() -> None:
    """Of several limits that ran out, the planner hears of the one that stopped its call, then of what is spent."""
    policy = RunPolicy(max_tokens=0, max_cost=0, on_missing_fields="finalize")
    counts = RunTotals(failed_steps=3)
    reasons = []
    for refused, changes in (
        ("max_tool_calls", {}),
        (None, {}),
        (None, {"max_tokens": None}),
        (None, {"max_tokens": None, "max_cost": None}),
        (None, {"max_tokens": None, "max_cost": None, "max_consecutive_failed_tool_calls": None}),
    ):
        ended = exhausted(policy.model_copy(update=changes), counts, refused, [LACKING])
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
    """The person is told what ran out; the planner also to answer, and what with."""
    notice = finalize(RunPolicy(time_budget=SECOND), reason)
    assert notice.reason == reason
    assert notice.message.endswith(said)
    assert notice.instruction.endswith("nswer with what you know.") or "Answer now" in notice.instruction
    assert notice.notice == f"{notice.message} {notice.instruction}"


@pytest.mark.parametrize(("result", "lacks"), [(GOOD, False), (BAD, False), (LACKING, True)])
def test_a_call_lacks_fields_when_its_hint_names_some(result: ToolResult, lacks: bool) -> None:
    """Also beside other faults, since a person can give what is missing in any case."""
    assert lacks_fields(result) is lacks


# What a policy engine takes away.

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
def test_a_lowered_policy_leaves_the_lesser(policy, caps: Caps, counts: RunTotals, spent: timedelta) -> None:
    """Afterwards is left what was left before or what the engine leaves, whichever is less; it gives nothing (D-20)."""
    before, after = (caps_left(p, counts, spent) for p in (policy, lowered(policy, caps, counts, spent)))
    for name in CAPS:
        wanted = getattr(caps, name) if name != "failed_steps" else None
        assert getattr(after, name) == less(getattr(before, name), wanted)


@given(POLICIES, ANY_CAPS, COUNTS)
def test_lowering_twice_is_as_once(policy, caps: Caps, counts: RunTotals) -> None:
    """The same decision in a later attempt, or a replay, changes nothing more."""
    once = lowered(policy, caps, counts, SECOND)
    assert lowered(once, caps, counts, SECOND) == once


def test_caps_that_are_not_named_lower_nothing() -> None:
    """A default is nothing said: no engine forbids failures by speaking of calls."""
    policy = RunPolicy(max_consecutive_failed_tool_calls=9)
    assert lowered(policy, Caps(), RunTotals(), SECOND) is policy
    assert lowered(policy, Caps(tool_calls=2), RunTotals(children_count=3), SECOND) == policy.model_copy(
        update={"max_tool_calls": 5}
    )


def test_a_lowered_limit_counts_from_what_it_counts() -> None:
    """Rounds from those of the turn, not of the run; calls, tokens and money from those of child runs too."""
    spent = ToolTelemetry(input_tokens=3, output_tokens=4, cost=0.25)
    counts = RunTotals(
        tool_calls=1, children_count=3, rounds=9, turn_rounds=2, usage=Usage(input_tokens=10), telemetry=spent
    )
    policy = RunPolicy(max_tool_calls=99, max_tool_rounds=99, max_tokens=99, max_cost=99)
    caps = Caps(tool_calls=1, rounds=1, time=SECOND, tokens=1, cost=1)
    changed = lowered(policy, caps, counts, 7 * SECOND)
    assert (changed.max_tool_calls, changed.max_tool_rounds, changed.time_budget) == (4, 3, 8 * SECOND)
    assert (changed.max_tokens, changed.max_cost) == (18, 1.25)


@given(ANY_CAPS, ANY_CAPS)
def test_the_stricter_caps_are_the_lesser(ours: Caps, theirs: Caps) -> None:
    """Name by name, as far as the other names them; what remains is ours."""
    both = stricter_caps(ours, theirs)
    for name in CAPS:
        wanted = getattr(theirs, name) if name != "failed_steps" else None
        assert getattr(both, name) == less(getattr(ours, name), wanted)
    assert stricter_caps(ours, None) is ours
    assert stricter_caps(both, theirs) == both

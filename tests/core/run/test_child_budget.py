"""Shares: the limits of child runs, out of what their parent has left."""

import math
from datetime import timedelta

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sojourn import ApprovalPolicy, RunPolicyOverride, Usage
from sojourn.contracts.run_policy import Limits
from sojourn.core.run.child_runs import exhausted_share, inherit_limits, share_of
from sojourn.core.run.limits import caps_after
from sojourn.policy import Caps

SECOND = timedelta(seconds=1)
LEFT = st.none() | st.integers(0, 1_000)


@given(LEFT, LEFT, st.none() | st.floats(0, 1e6), st.integers(0, 64), st.integers(1, 64))
def test_children_together_never_exceed_what_is_left(
    calls_left: int | None, tokens: int | None, cost: float | None, calls: int, children: int
) -> None:
    """The step's own calls and the shares of all its child runs fit in the caps, for every limit that is set."""
    assume(calls >= children and (calls_left is None or calls <= calls_left))
    share = share_of(Caps(tool_calls=calls_left, tokens=tokens, cost=cost), calls, children, Limits())
    given = share
    for left, each, own in (
        (calls_left, given.max_tool_calls, calls),
        (tokens, given.max_tokens, 0),
        (cost, given.max_cost, 0),
    ):
        assert (each is None) is (left is None)
        if left is not None and each is not None:
            assert each >= 0
            together = own + each * children
            assert together <= left or math.isclose(together, left)


def test_shares_are_equal_and_as_large_as_they_can_be() -> None:
    """With ten calls left and three in the step, two child runs get three each."""
    caps = Caps(tool_calls=10, tokens=101, cost=1.5)
    assert share_of(caps, 3, 2, Limits()) == RunPolicyOverride(
        max_tool_calls=3, max_tokens=50, max_cost=0.75, max_depth=5
    )


def test_a_step_that_uses_up_the_calls_leaves_its_children_none() -> None:
    """A step that uses up the calls gives its child runs a share of 0, with which they can still answer."""
    for calls in (10, 11):
        assert share_of(Caps(tool_calls=10), calls, 2, Limits()) == RunPolicyOverride(
            max_tool_calls=0, max_depth=5
        )


def test_only_calls_tokens_and_cost_are_shared() -> None:
    """Rounds, failed steps and time are not divided, and an absent limit gives no share."""
    share = share_of(Caps(rounds=3, failed_steps=1, time=SECOND), 5, 2, Limits())
    assert share == RunPolicyOverride(max_depth=5)


def test_max_depth_holds_for_the_whole_tree() -> None:
    """A parent run's `max_depth` is passed on to its child runs."""
    assert share_of(Caps(), 1, 1, Limits(max_depth=2)) == RunPolicyOverride(max_depth=2)


def test_a_child_inherits_its_share_and_what_is_forbidden(subtests: pytest.Subtests) -> None:
    """A child run starts with its share, the time left, and every prohibition of its parent run."""
    rows = [
        (None, None, None, None),
        (RunPolicyOverride(), None, None, None),
        # Time is not divided, since the child runs of a step run in parallel; no time left is a millisecond.
        (None, None, SECOND, {"time_budget": SECOND}),
        (None, None, timedelta(0), {"time_budget": timedelta(milliseconds=1)}),
        # A prohibition of the run holds for its child runs.
        (RunPolicyOverride(interrupts_allowed=False), None, None, {"interrupts_allowed": False}),
        (
            RunPolicyOverride(
                denied_tools=["a.b.c"], denied_tags=["write"], approval=ApprovalPolicy.read_only()
            ),
            None,
            None,
            {"denied_tools": ["a.b.c"], "denied_tags": ["write"], "approval": ApprovalPolicy.read_only()},
        ),
        # A permission, or a limit of the parent's own tools and turns, is not passed on.
        (RunPolicyOverride(interrupts_allowed=True), None, None, None),
        (
            RunPolicyOverride(
                max_tool_calls=5,
                max_tool_rounds=2,
                allowed_tools=["a.b.c"],
                allowed_tags=["x"],
                time_budget=SECOND,
            ),
            None,
            None,
            None,
        ),
        # The share counts too.
        (None, RunPolicyOverride(max_tokens=5), None, {"max_tokens": 5}),
        (
            RunPolicyOverride(denied_tools=["a.b.c"]),
            RunPolicyOverride(max_tool_calls=0, max_depth=2),
            SECOND,
            {"max_tool_calls": 0, "max_depth": 2, "time_budget": SECOND, "denied_tools": ["a.b.c"]},
        ),
    ]
    for own, share, time_left, child in rows:
        with subtests.test(str((own, share, time_left, child))):
            expected = None if child is None else RunPolicyOverride(**child)
            assert inherit_limits(own, share, time_left) == expected


def test_a_child_with_nothing_to_plan_with_is_not_started(subtests: pytest.Subtests) -> None:
    """A child run needs tokens and money for its first plan; without calls left it can still answer."""
    rows = [
        ({}, None),
        ({"max_tool_calls": 0}, None),
        ({"max_tokens": 1, "max_cost": 0.01}, None),
        ({"max_tokens": 0, "max_cost": 1.0}, "max_tokens"),
        ({"max_cost": 0.0}, "max_cost"),
    ]
    for share, lacking in rows:
        with subtests.test(share=share, lacking=lacking):
            assert exhausted_share(RunPolicyOverride(**share)) == lacking


def test_what_a_plan_has_used_is_not_left_for_its_calls() -> None:
    """The caps of a plan's calls are those before the plan, without its tokens of both kinds and its cost, and never below zero."""
    caps = Caps(tool_calls=3, tokens=100, cost=1.0)
    assert caps_after(caps, None) == caps
    used = Usage(input_tokens=30, output_tokens=20, cost=0.25)
    assert caps_after(caps, used) == Caps(tool_calls=3, tokens=50, cost=0.75)
    assert caps_after(caps, Usage(input_tokens=1, output_tokens=100, cost=2.0)) == Caps(
        tool_calls=3, tokens=0, cost=0.0
    )
    assert caps_after(Caps(), used) == Caps()


class Spender:
    """A run of a random tree: spends tokens in its plans and in child runs, up to its limit."""

    def __init__(self, dice, most: int) -> None:
        self.dice = dice
        self.most = most

    def spent(self, limit: int, depth: int) -> int:
        """Plan, and start child runs, while tokens are left; returns the tokens that the run and its child runs spent."""
        spent = 0
        while spent < limit:
            used = self.dice.randint(1, self.most)
            spent += used
            children = self.dice.randint(0, 3) if depth else 0
            if children:
                caps = caps_after(Caps(tokens=limit - spent + used), Usage(input_tokens=used))
                share = share_of(caps, children, children, Limits())
                if exhausted_share(share) is None:
                    spent += sum(self.spent(share.max_tokens or 0, depth - 1) for _ in range(children))
            if self.dice.random() < 0.2:
                break
        return spent


@given(st.randoms(use_true_random=False), st.integers(0, 500), st.integers(1, 60))
def test_a_tree_exceeds_its_limit_by_at_most_one_plan_per_parallel_run(dice, limit: int, most: int) -> None:
    """A tree of runs exceeds its limit by at most one plan for each run that worked in parallel (SR-53)."""
    assert Spender(dice, most).spent(limit, 2) <= limit + most * 3**2

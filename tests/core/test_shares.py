"""Shares: what child runs may spend of what their parent has left."""

import math
from datetime import timedelta

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sojourn import ApprovalPolicy, Caps, RunPolicyOverride
from sojourn.contracts.tasks import Limits
from sojourn.core.shares import inherited, share_of

SECOND = timedelta(seconds=1)
LEFT = st.none() | st.integers(0, 1_000)


@given(LEFT, LEFT, st.none() | st.floats(0, 1e6), st.integers(0, 64), st.integers(1, 64))
def test_children_together_never_exceed_what_is_left(
    calls_left: int | None, tokens: int | None, cost: float | None, calls: int, children: int
) -> None:
    """The step's own calls and all that its children may do fit in the caps, and no limit is forgotten."""
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
    """Ten calls left, of which three are made here: two children may make three each."""
    caps = Caps(tool_calls=10, tokens=101, cost=1.5)
    assert share_of(caps, 3, 2, Limits()) == RunPolicyOverride(
        max_tool_calls=3, max_tokens=50, max_cost=0.75, max_depth=5
    )


def test_a_step_that_uses_up_the_calls_leaves_its_children_none() -> None:
    """A child that may call nothing still may answer."""
    for calls in (10, 11):
        assert share_of(Caps(tool_calls=10), calls, 2, Limits()) == RunPolicyOverride(
            max_tool_calls=0, max_depth=5
        )


def test_what_has_no_limit_is_not_shared() -> None:
    """Without limits the children have their own; a round is not passed on, since each run counts its own."""
    share = share_of(Caps(rounds=3, failed_steps=1, time=SECOND), 5, 2, Limits())
    assert share == RunPolicyOverride(max_depth=5)


def test_how_deep_agents_nest_holds_for_the_whole_tree() -> None:
    """A parent's own depth goes on to its children, whose policies may say more."""
    assert share_of(Caps(), 1, 1, Limits(max_depth=2)) == RunPolicyOverride(max_depth=2)


@pytest.mark.parametrize(
    ("own", "share", "time_left", "child"),
    [
        (None, None, None, None),
        (RunPolicyOverride(), None, None, None),
        # Time goes on as it is, since children of a step run side by side; none left is an instant.
        (None, None, SECOND, {"time_budget": SECOND}),
        (None, None, timedelta(0), {"time_budget": timedelta(milliseconds=1)}),
        # What was forbidden for the run is forbidden for the tree.
        (RunPolicyOverride(interrupts_allowed=False), None, None, {"interrupts_allowed": False}),
        (
            RunPolicyOverride(
                denied_tools=["a.b.c"], denied_tags=["write"], approval=ApprovalPolicy.read_only()
            ),
            None,
            None,
            {"denied_tools": ["a.b.c"], "denied_tags": ["write"], "approval": ApprovalPolicy.read_only()},
        ),
        # What was allowed, or concerns the parent's own tools and turns, is not.
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
        # The share counts besides.
        (None, RunPolicyOverride(max_tokens=5), None, {"max_tokens": 5}),
        (
            RunPolicyOverride(denied_tools=["a.b.c"]),
            RunPolicyOverride(max_tool_calls=0, max_depth=2),
            SECOND,
            {"max_tool_calls": 0, "max_depth": 2, "time_budget": SECOND, "denied_tools": ["a.b.c"]},
        ),
    ],
    ids=str,
)
def test_a_child_inherits_its_share_and_what_is_forbidden(own, share, time_left, child: dict | None) -> None:
    """A child run starts with what is left for it, and with every prohibition of its parent's run."""
    expected = None if child is None else RunPolicyOverride(**child)
    assert inherited(own, share, time_left) == expected

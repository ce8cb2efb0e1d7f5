"""RunPolicy: the limits of a run, and how one run tightens them."""

from datetime import timedelta

import pytest
from pydantic import ValidationError

from sojourn import RunPolicy, RunPolicyOverride


def test_an_override_only_tightens() -> None:
    """The stricter of the two counts, field by field (D-20)."""
    policy = RunPolicy(max_tool_calls=10, max_tool_rounds=5, interrupts_allowed=True)
    wanted = RunPolicyOverride(
        max_tool_calls=3,
        max_tool_rounds=50,
        interrupts_allowed=False,
        plan_timeout=timedelta(seconds=1),
        tool_timeout=timedelta(days=1),
    )
    assert policy.tightened(wanted) == policy.model_copy(
        update={"max_tool_calls": 3, "interrupts_allowed": False, "plan_timeout": timedelta(seconds=1)}
    )


def test_a_limit_where_there_was_none_counts() -> None:
    """No limit is the loosest there is; an override of none inherits."""
    policy = RunPolicy(max_consecutive_failed_tool_calls=None)
    tightened = policy.tightened(RunPolicyOverride(max_tool_calls=0, max_consecutive_failed_tool_calls=2))
    assert (tightened.max_tool_calls, tightened.max_consecutive_failed_tool_calls) == (0, 2)


def test_nothing_to_tighten_is_the_same_policy() -> None:
    """An override may not ask a person where the agent's policy forbids it (SR-74)."""
    policy = RunPolicy()
    assert policy.tightened(None) is policy
    assert policy.tightened(RunPolicyOverride(interrupts_allowed=True, max_depth=99)) is policy


def test_policy_and_override_have_the_same_fields() -> None:
    """Every limit can be tightened for one run."""
    assert set(RunPolicyOverride.model_fields) == set(RunPolicy.model_fields)
    assert all(field.default is None for field in RunPolicyOverride.model_fields.values())


@pytest.mark.parametrize("kind", [RunPolicy, RunPolicyOverride])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_tool_calls", -1),
        ("max_tool_rounds", 0),
        ("max_parallel_calls", 0),
        ("max_depth", 0),
        ("plan_timeout", timedelta(0)),
        ("tool_timeout", timedelta(seconds=-1)),
    ],
    ids=str,
)
def test_a_limit_that_nothing_can_keep_is_refused(kind, name: str, value: object) -> None:
    """A run that Temporal would refuse to schedule anything for is refused where its policy is made."""
    with pytest.raises(ValidationError, match=name):
        kind(**{name: value})


def test_the_defaults_are_those_of_the_design() -> None:
    """Twenty rounds a turn (ME-18), 64 calls a step, 32 at once, three failed steps, and nobody is asked."""
    policy = RunPolicy()
    assert (policy.max_tool_rounds, policy.max_calls_per_step, policy.max_parallel_calls) == (20, 64, 32)
    assert (policy.max_consecutive_failed_tool_calls, policy.max_tool_calls) == (3, None)
    assert (policy.plan_timeout, policy.tool_timeout) == (timedelta(minutes=10), timedelta(minutes=2))
    assert (policy.interrupts_allowed, policy.max_depth) == (False, 5)

"""RunPolicy: the limits of a run, and how a RunPolicyOverride tightens or replaces them."""

import json
from datetime import timedelta
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn import ApprovalPolicy, RunPolicy, RunPolicyOverride, SessionPolicy
from sojourn.contracts.ids import matches_any
from sojourn.contracts.run_policy import Limits, OnMissingFields
from sojourn.errors import DefinitionError

SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)
TOOLS = ["ops.devices.list", "ops.devices.reset", "ops.other.list", "a.b.c"]


def test_an_override_only_tightens() -> None:
    """The stricter value of policy and override counts, field by field."""
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
    """A limit of the override counts where the policy has none."""
    policy = RunPolicy(max_consecutive_failed_tool_calls=None)
    tightened = policy.tightened(RunPolicyOverride(max_tool_calls=0, max_consecutive_failed_tool_calls=2))
    assert (tightened.max_tool_calls, tightened.max_consecutive_failed_tool_calls) == (0, 2)


def test_nothing_to_tighten_is_the_same_policy() -> None:
    """An override cannot allow questions to a person that the policy forbids, nor raise a limit (SR-74)."""
    policy = RunPolicy()
    assert policy.tightened(None) is policy
    assert policy.tightened(RunPolicyOverride(interrupts_allowed=True, max_depth=99)) is policy


# For each field a looser value, a stricter value, and the stricter of both where that is neither of them.
PAIRS: dict[str, tuple[Any, ...]] = {
    "max_tool_calls": (9, 2),
    "max_tool_rounds": (9, 2),
    "max_calls_per_step": (9, 2),
    "max_parallel_calls": (9, 2),
    "max_consecutive_failed_tool_calls": (9, 2),
    "similar_errors": (9, 2),
    "time_budget": (HOUR, SECOND),
    "finalizer_grace": (HOUR, SECOND),
    "plan_timeout": (HOUR, SECOND),
    "tool_timeout": (HOUR, SECOND),
    "interrupts_allowed": (True, False),
    "on_missing_fields": ("resume", "finalize"),
    "approval": (
        ApprovalPolicy(asks_for="everything"),
        ApprovalPolicy(asks=False),
        ApprovalPolicy(asks_for="everything", asks=False),
    ),
    "allowed_tools": (["ops.*", "a.b.c"], ["ops.devices.*", "x.y.z"], ["ops.devices.*"]),
    "allowed_tags": (["read", "write"], ["read"]),
    "denied_tools": (["a.b.c"], ["d.e.f"], ["a.b.c", "d.e.f"]),
    "denied_tags": (["a"], ["b"], ["a", "b"]),
    "max_depth": (9, 2),
    "max_tokens": (9, 2),
    "max_cost": (9.0, 0.5),
    "session": (SessionPolicy(max_turns=9), SessionPolicy(max_turns=2)),
}
NO_LIMIT = [name for name, field in RunPolicy.model_fields.items() if field.default is None]


def test_every_limit_is_in_the_table() -> None:
    """PAIRS has every field of RunPolicy, so the tests below cover a new one."""
    assert set(PAIRS) == set(RunPolicy.model_fields)


def sorted_lists(value: Any) -> Any:
    return sorted(value) if isinstance(value, list) else value


def test_of_each_limit_the_stricter_counts(subtests: pytest.Subtests) -> None:
    """`tightened` takes the stricter value in either order, for a policy and for an override."""
    for name, (looser, stricter, *_) in PAIRS.items():
        with subtests.test(name):
            for ours, theirs in ((looser, stricter), (stricter, looser)):
                for kind in (RunPolicy, RunPolicyOverride):
                    both = kind(**{name: ours}).tightened(RunPolicyOverride(**{name: theirs}))
                    assert sorted_lists(getattr(both, name)) == PAIRS[name][-1]
                    assert both.model_copy(update={name: ours}) == kind(**{name: ours})


def test_where_the_app_allows_it_an_override_replaces(subtests: pytest.Subtests) -> None:
    """`overridden` takes the override's value even if it is looser, and keeps the fields that the override leaves out."""
    for name in PAIRS:
        with subtests.test(str(name)):
            policy = RunPolicy(**{name: PAIRS[name][1]})
            assert policy.overridden(RunPolicyOverride(**{name: PAIRS[name][0]})) == RunPolicy(
                **{name: PAIRS[name][0]}
            )
            assert policy.overridden(RunPolicyOverride()) == policy.overridden(None) == policy


def test_any_limit_is_stricter_than_none(subtests: pytest.Subtests) -> None:
    """Where one of the two has no limit, the other's counts; an empty list of allowed tools or tags is a limit."""
    for name in NO_LIMIT:
        with subtests.test(name=name):
            for value in (PAIRS[name][0], [] if name.startswith("allowed") else PAIRS[name][1]):
                assert getattr(RunPolicy().tightened(RunPolicyOverride(**{name: value})), name) == value
                given_here = RunPolicyOverride(**{name: value})
                assert RunPolicyOverride().tightened(given_here) == given_here.tightened(None) == given_here
                assert RunPolicy(**{name: value}).tightened(RunPolicyOverride()) == RunPolicy(**{name: value})


def test_of_a_family_and_its_tool_the_tool_is_allowed(subtests: pytest.Subtests) -> None:
    """A tool is allowed if both lists cover it, by its id, its toolset or `*`."""
    rows = [
        (["ops.devices.list"], ["ops.*"], ["ops.devices.list"]),
        (["ops.*"], ["ops.devices.list"], ["ops.devices.list"]),
        (["*"], ["ops.devices.list"], ["ops.devices.list"]),
        (["a.b.c"], ["*"], ["a.b.c"]),
        (["a.b.c"], ["d.e.f"], []),
        (["ops.*"], ["opsx.y.z"], []),
    ]
    for ours, theirs, both in rows:
        with subtests.test(ours=ours, theirs=theirs, both=both):
            policy = RunPolicy(allowed_tools=ours).tightened(RunPolicyOverride(allowed_tools=theirs))
            assert policy.allowed_tools == both


@pytest.mark.parametrize("ours", get_args(OnMissingFields))
@pytest.mark.parametrize("theirs", get_args(OnMissingFields))
def test_ending_is_stricter_than_asking_than_going_on(ours: OnMissingFields, theirs: OnMissingFields) -> None:
    """The values of `on_missing_fields` are declared in order, the strictest last."""
    order = get_args(OnMissingFields)
    both = RunPolicy(on_missing_fields=ours).tightened(RunPolicyOverride(on_missing_fields=theirs))
    assert both.on_missing_fields == max(ours, theirs, key=order.index)


NAMES = st.lists(st.sampled_from(["*", "ops.*", "ops.devices.*", *TOOLS]), max_size=3, unique=True)
TAGS = st.lists(st.sampled_from("abc"), max_size=2, unique=True)
DURATIONS = st.integers(1, 100).map(lambda n: timedelta(seconds=n))
MOST = st.none() | st.integers(1, 100)
LIMITS: dict[str, st.SearchStrategy[Any]] = {
    name: {
        "interrupts_allowed": st.booleans(),
        "on_missing_fields": st.sampled_from(get_args(OnMissingFields)),
        "approval": st.builds(ApprovalPolicy, denied_tools=NAMES, run_tools=NAMES, asks=st.booleans()),
        "session": st.builds(SessionPolicy, max_turns=MOST, max_tokens=MOST, max_cost=MOST),
        "allowed_tools": NAMES,
        "allowed_tags": TAGS,
        "denied_tools": NAMES,
        "denied_tags": TAGS,
    }.get(name, DURATIONS if isinstance(looser, timedelta) else st.integers(1, 100))
    for name, (looser, *_) in PAIRS.items()
}
POLICIES = st.fixed_dictionaries({}, optional=LIMITS).map(lambda given: RunPolicy(**given))
OVERRIDES = st.fixed_dictionaries({}, optional=LIMITS).map(lambda given: RunPolicyOverride(**given))


def tools_of(allowed: list[str] | None) -> set[str]:
    return {tool for tool in TOOLS if allowed is None or matches_any(tool, allowed)}


def within(name: str, ours: Any, limit: Any) -> bool:
    """Whether a field's value is at least as strict as the limit."""
    if name == "allowed_tools":
        return tools_of(ours) <= tools_of(limit)
    if limit is None or ours is None:
        return limit is None
    if name in ("approval", "session"):
        return ours.tightened(limit) == ours
    if name == "on_missing_fields":
        order = get_args(OnMissingFields)
        return order.index(ours) >= order.index(limit)
    if name.startswith("denied"):
        return set(ours) >= set(limit)
    return set(ours) <= set(limit) if name == "allowed_tags" else ours <= limit


def looser(policy: RunPolicy, other: RunPolicy | RunPolicyOverride) -> list[str]:
    """The fields in which a policy is not at least as strict as the other."""
    return [name for name in PAIRS if not within(name, getattr(policy, name), getattr(other, name))]


@given(POLICIES, OVERRIDES, OVERRIDES)
def test_tightening_never_loosens(
    policy: RunPolicy, override: RunPolicyOverride, other: RunPolicyOverride
) -> None:
    """A tightened policy is as strict as policy and override, tightening is idempotent, and overrides combine."""
    tightened = policy.tightened(override)
    assert looser(tightened, policy) == looser(tightened, override) == []
    assert tightened.tightened(override) == tightened
    at_once, in_turn = policy.tightened(override.tightened(other)), tightened.tightened(other)
    assert looser(at_once, in_turn) == looser(in_turn, at_once) == []


def test_policy_and_override_have_the_same_fields() -> None:
    """RunPolicyOverride has every field of RunPolicy, each with the default None."""
    assert set(RunPolicyOverride.model_fields) == set(RunPolicy.model_fields)
    assert all(field.default is None for field in RunPolicyOverride.model_fields.values())


def test_a_limit_that_no_run_can_keep_is_refused(subtests: pytest.Subtests) -> None:
    """A limit under its minimum, such as a time-out of zero, raises a DefinitionError that names the field."""
    kinds = [RunPolicy, RunPolicyOverride]
    names = [
        ("max_tool_calls", -1),
        ("max_tool_rounds", 0),
        ("max_parallel_calls", 0),
        ("max_depth", 0),
        ("plan_timeout", timedelta(0)),
        ("tool_timeout", timedelta(seconds=-1)),
    ]
    for name, value in names:
        for kind in kinds:
            with subtests.test(f"{name} of {kind}"), pytest.raises(DefinitionError, match=name):
                kind(**{name: value})


def test_the_defaults_are_those_of_the_design() -> None:
    """The defaults include 20 rounds a turn (ME-18), 64 calls a step, 32 at once, three similar errors, six failed steps, and no questions."""
    policy = RunPolicy()
    assert (policy.max_tool_rounds, policy.max_calls_per_step, policy.max_parallel_calls) == (20, 64, 32)
    assert (policy.similar_errors, policy.max_consecutive_failed_tool_calls) == (3, 6)
    assert policy.max_tool_calls is None
    assert (policy.plan_timeout, policy.tool_timeout) == (timedelta(minutes=10), timedelta(minutes=2))
    assert (policy.interrupts_allowed, policy.max_depth) == (False, 5)


def test_a_policy_of_an_older_version_does_not_know_taint() -> None:
    """A run that an older version began goes on as it did: its policy reads `allow`. A policy that an author writes asks."""
    written = RunPolicy(approval=ApprovalPolicy(asks_for="nothing")).model_dump(mode="json")
    del written["approval"]["tainted"]
    for kind in (RunPolicy, Limits):
        for read in (kind.model_validate(written), kind.model_validate_json(json.dumps(written))):
            assert (read.approval.tainted, read.approval.asks_for) == ("allow", "nothing")
    override = {"approval": written["approval"]}  # of the client, or for a child run
    for read in (
        RunPolicyOverride.model_validate(override),
        RunPolicyOverride.model_validate_json(json.dumps(override)),
    ):
        assert read.approval
        assert read.approval.tainted == "allow"
    assert RunPolicy.model_validate_json('{"approval": {"asks_for": "nothing"}}').approval.tainted == "ask"
    assert RunPolicy().approval.tainted == ApprovalPolicy(**written["approval"]).tainted == "ask"

"""Selection: which tools a rule names, and which a run may use."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn import PolicyDecision, ToolSpec, TypeSpec
from sojourn.contracts.ids import matches_any
from sojourn.contracts.run_policy import Limits
from sojourn.core.run.policy import offered, withheld

TOOL = "ops.devices.list"
NOT_AMONG = "it is not among the tools that this run's policy allows"
NO_TAG = "it has none of the tags that this run's policy allows"
DENIED = "this run's policy does not allow it"
NOT_NOW = "the policy engine does not allow it now"
DISABLED = "the policy engine has disabled it for now"


@pytest.mark.parametrize(
    ("pattern", "is_named"),
    [
        (TOOL, True),
        ("ops.devices.*", True),
        ("ops.*", True),
        ("*", True),
        ("ops.devices.reset", False),
        ("ops.devices.list.*", False),
        ("ops.dev.*", False),
        # A star stands for the rest after a dot, and nowhere else.
        ("ops.devices.l*", False),
        ("ops.*.list", False),
        ("*.list", False),
        ("ops.devices", False),
        ("OPS.DEVICES.LIST", False),
        ("", False),
        (".*", False),
    ],
)
def test_a_tool_is_named_by_its_id_or_its_family(pattern: str, is_named: bool) -> None:
    """By itself, with the others of its toolset or service, or with all; a rule is no regular expression."""
    assert matches_any(TOOL, [pattern]) is is_named
    assert matches_any(TOOL, ["a.b.c", pattern, "d.e.f"]) is is_named


def test_no_rule_names_nothing() -> None:
    """An empty list is nobody."""
    assert not matches_any(TOOL, [])


@pytest.mark.parametrize(
    ("limits", "decision", "why"),
    [
        ({}, None, None),
        ({}, PolicyDecision(), None),
        # What is allowed, by id and by tag: both have to allow it.
        ({"allowed_tools": [TOOL]}, None, None),
        ({"allowed_tools": ["ops.*"], "allowed_tags": ["read", "other"]}, None, None),
        ({"allowed_tools": []}, None, NOT_AMONG),
        ({"allowed_tools": ["a.b.c"], "allowed_tags": ["read"]}, None, NOT_AMONG),
        ({"allowed_tags": []}, None, NO_TAG),
        ({"allowed_tools": [TOOL], "allowed_tags": ["write"]}, None, NO_TAG),
        # What is denied is denied, though it is allowed too.
        ({"denied_tools": ["ops.devices.*"], "allowed_tools": [TOOL]}, None, DENIED),
        ({"denied_tags": ["read"]}, None, DENIED),
        ({"denied_tags": ["write"], "denied_tools": ["a.b.c"]}, None, None),
        # The engine takes away, and gives nothing back.
        ({}, PolicyDecision(allowed_tools=[]), NOT_NOW),
        ({}, PolicyDecision(allowed_tools=["ops.*"]), None),
        ({}, PolicyDecision(disable_tools=["ops.*"]), DISABLED),
        ({}, PolicyDecision(allowed_tools=[TOOL], disable_tools=[TOOL]), DISABLED),
        ({"denied_tools": [TOOL]}, PolicyDecision(allowed_tools=[TOOL], approve=[TOOL]), DENIED),
        ({"allowed_tools": []}, PolicyDecision(allowed_tools=[TOOL]), NOT_AMONG),
    ],
    ids=str,
)
def test_a_run_uses_what_every_rule_leaves(
    limits: dict, decision: PolicyDecision | None, why: str | None
) -> None:
    """The first rule that withholds a tool says why, to the planner that asks for it all the same."""
    assert withheld(TOOL, ["read"], Limits(**limits), decision) == why


RULES = st.lists(st.sampled_from(["a.b.c", "a.b.d", "a.b.*", "x.y.z", "*"]), max_size=2)
TAGS = st.lists(st.sampled_from(["read", "write"]), max_size=2)
SPECS = [
    ToolSpec(
        id=id,
        title="",
        description="",
        tags=tags,
        payload=TypeSpec(name="P", json_schema={}),
        result=TypeSpec(name="R", json_schema={}),
    )
    for id, tags in (("a.b.c", ["read"]), ("a.b.d", []), ("x.y.z", ["read", "write"]))
]


@given(
    st.builds(
        Limits,
        allowed_tools=st.none() | RULES,
        allowed_tags=st.none() | TAGS,
        denied_tools=RULES,
        denied_tags=TAGS,
    ),
    st.none() | st.builds(PolicyDecision, allowed_tools=st.none() | RULES, disable_tools=RULES),
)
def test_what_is_offered_is_what_is_not_withheld(limits: Limits, decision: PolicyDecision | None) -> None:
    """A planner is shown exactly the tools that it may call, in the catalogue's order, and the engine adds none."""
    shown = offered(SPECS, limits, decision)
    assert shown == [spec for spec in SPECS if not withheld(spec.id, spec.tags, limits, decision)]
    assert all(spec in offered(SPECS, limits, None) for spec in shown)

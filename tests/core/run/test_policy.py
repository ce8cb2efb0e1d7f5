"""Policy: the tools that a pattern names, and those that a run may use."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.contracts import ToolSpec, TypeSpec
from sojourn.contracts.ids import matches_any
from sojourn.contracts.run_policy import Limits
from sojourn.core.run.policy import offered_tools, withheld_reason
from sojourn.policy import PolicyDecision

TOOL = "ops.devices.list"
NOT_AMONG = "it is not among the tools that this run's policy allows"
NO_TAG = "it has none of the tags that this run's policy allows"
DENIED = "this run's policy does not allow it"
NOT_NOW = "the policy engine does not allow it now"
DISABLED = "the policy engine has disabled it for now"


def test_a_pattern_is_an_id_a_toolset_a_service_or_all(subtests: pytest.Subtests) -> None:
    """A pattern is a tool's id, `<service>.<toolset>.*`, `<service>.*` or `*`; it is no regular expression."""
    rows = [
        (TOOL, True),
        ("ops.devices.*", True),
        ("ops.*", True),
        ("*", True),
        ("ops.devices.reset", False),
        ("ops.devices.list.*", False),
        ("ops.dev.*", False),
        # A star is allowed only at the end, alone or after a dot.
        ("ops.devices.l*", False),
        ("ops.*.list", False),
        ("*.list", False),
        ("ops.devices", False),
        ("OPS.DEVICES.LIST", False),
        ("", False),
        (".*", False),
    ]
    for pattern, is_named in rows:
        with subtests.test(str((pattern, is_named))):
            assert matches_any(TOOL, [pattern]) is is_named
            assert matches_any(TOOL, ["a.b.c", pattern, "d.e.f"]) is is_named


def test_an_empty_list_names_no_tool() -> None:
    """No tool matches an empty list of patterns."""
    assert not matches_any(TOOL, [])


def test_a_run_uses_the_tools_that_no_rule_withholds() -> None:
    """`withheld` is None for a tool that every rule allows, else the reason of the first rule that withholds it."""
    rows = [
        ({}, None, None),
        ({}, PolicyDecision(), None),
        # Allowed tools and allowed tags both have to allow the tool.
        ({"allowed_tools": [TOOL]}, None, None),
        ({"allowed_tools": ["ops.*"], "allowed_tags": ["read", "other"]}, None, None),
        ({"allowed_tools": []}, None, NOT_AMONG),
        ({"allowed_tools": ["a.b.c"], "allowed_tags": ["read"]}, None, NOT_AMONG),
        ({"allowed_tags": []}, None, NO_TAG),
        ({"allowed_tools": [TOOL], "allowed_tags": ["write"]}, None, NO_TAG),
        # A denied tool is withheld even if it is allowed too.
        ({"denied_tools": ["ops.devices.*"], "allowed_tools": [TOOL]}, None, DENIED),
        ({"denied_tags": ["read"]}, None, DENIED),
        ({"denied_tags": ["write"], "denied_tools": ["a.b.c"]}, None, None),
        # The policy engine withholds tools, and restores none.
        ({}, PolicyDecision(allowed_tools=[]), NOT_NOW),
        ({}, PolicyDecision(allowed_tools=["ops.*"]), None),
        ({}, PolicyDecision(disable_tools=["ops.*"]), DISABLED),
        ({}, PolicyDecision(allowed_tools=[TOOL], disable_tools=[TOOL]), DISABLED),
        ({"denied_tools": [TOOL]}, PolicyDecision(allowed_tools=[TOOL], approve=[TOOL]), DENIED),
        ({"allowed_tools": []}, PolicyDecision(allowed_tools=[TOOL]), NOT_AMONG),
    ]
    assert [
        (limits, decision, found)
        for limits, decision, why in rows
        if (found := withheld_reason(TOOL, ["read"], Limits(**limits), decision)) != why
    ] == []


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
def test_the_offered_tools_are_those_not_withheld(limits: Limits, decision: PolicyDecision | None) -> None:
    """`offered` returns exactly the tools that are not withheld, in the catalogue's order; a decision adds none."""
    shown = offered_tools(SPECS, limits, decision)
    assert shown == [spec for spec in SPECS if not withheld_reason(spec.id, spec.tags, limits, decision)]
    assert all(spec in offered_tools(SPECS, limits, None) for spec in shown)

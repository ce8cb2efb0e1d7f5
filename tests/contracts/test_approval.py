"""ApprovalPolicy: its presets, and the stricter of two policies."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn import ApprovalPolicy
from sojourn.contracts.ids import matches_any
from sojourn.contracts.run_policy import in_both
from sojourn.errors import DefinitionError

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
PATTERNS = st.lists(
    st.sampled_from(
        ["*", "ops.*", "ops.devices.*", "ops.devices.list", "ops.devices.reset", "a.b.c", "a.b.*"]
    ),
    max_size=4,
)
TOOLS = [
    "ops.devices.list",
    "ops.devices.reset",
    "ops.devices",
    "ops.other.list",
    "opsx.y.z",
    "a.b.c",
    "a.bc.d",
]


def test_a_policy_asks_about_what_is_marked() -> None:
    """By default, a person decides about tools declared `destructive` or with a `confirmation`."""
    assert ApprovalPolicy().model_dump() == {
        "denied_tools": [],
        "denied_tags": [],
        "read_only_runs": True,
        "run_tools": [],
        "run_tags": [],
        "asks_for": "marked",
        "asks": True,
        "expires_after": None,
        "rules": [],
        "stop_asking": "turn",
        "allows_edits": True,
        "approvals": 1,
        "escalate_after": None,
        "escalate_to": [],
        "on_message": "wait",
        "tainted": "ask",
    }


@pytest.mark.parametrize(
    ("preset", "changes"),
    [
        (ApprovalPolicy.unattended(), {"asks_for": "nothing", "tainted": "allow"}),
        (ApprovalPolicy.supervised(), {"asks_for": "changes"}),
        (ApprovalPolicy.read_only(), {"asks_for": "changes", "asks": False, "tainted": "deny"}),
    ],
)
def test_a_preset_is_a_short_name_for_a_policy(preset: ApprovalPolicy, changes: dict) -> None:
    """`unattended` asks nobody, `supervised` asks a person about changes, and `read_only` denies changes."""
    assert preset == ApprovalPolicy().model_copy(update=changes)


def test_the_stricter_rule_counts(subtests: pytest.Subtests) -> None:
    """`tightened` takes the stricter value of each rule, whichever policy comes first."""
    rows = [
        (
            {"denied_tools": ["a.b.c", "x"]},
            {"denied_tools": ["d", "x"]},
            {"denied_tools": ["a.b.c", "x", "d"]},
        ),
        ({"denied_tags": ["a"]}, {}, {"denied_tags": ["a"]}),
        ({"read_only_runs": False}, {"read_only_runs": True}, {"read_only_runs": False}),
        ({"run_tools": ["a", "b"]}, {"run_tools": ["b", "c"]}, {"run_tools": ["b"]}),
        ({"run_tools": ["ops.*"]}, {"run_tools": ["ops.d.list"]}, {"run_tools": ["ops.d.list"]}),
        ({"run_tools": ["a"]}, {}, {"run_tools": []}),
        ({"run_tags": ["a", "b"]}, {"run_tags": ["b"]}, {"run_tags": ["b"]}),
        ({"asks_for": "nothing"}, {"asks_for": "marked"}, {"asks_for": "marked"}),
        ({"asks_for": "changes"}, {"asks_for": "marked"}, {"asks_for": "changes"}),
        ({"asks_for": "everything"}, {"asks_for": "changes"}, {"asks_for": "everything"}),
        ({"asks": False}, {"asks": True}, {"asks": False}),
        ({"expires_after": DAY}, {"expires_after": HOUR}, {"expires_after": HOUR}),
        ({"expires_after": None}, {"expires_after": DAY}, {"expires_after": DAY}),
        ({"expires_after": None}, {"expires_after": None}, {}),
        ({"allows_edits": True}, {"allows_edits": False}, {"allows_edits": False}),
        ({"approvals": 2}, {"approvals": 3}, {"approvals": 3}),
        ({"tainted": "allow"}, {}, {"tainted": "ask"}),
        ({"tainted": "ask"}, {"tainted": "deny"}, {"tainted": "deny"}),
    ]
    for ours, theirs, stricter in rows:
        with subtests.test(str((ours, theirs, stricter))):
            one, other = ApprovalPolicy(**ours), ApprovalPolicy(**theirs)
            assert one.tightened(other) == ApprovalPolicy().model_copy(update=stricter)
            turned = other.tightened(one).model_dump()
            assert {
                name: sorted(rule) if isinstance(rule, list) else rule for name, rule in turned.items()
            } == {
                name: sorted(rule) if isinstance(rule, list) else rule
                for name, rule in one.tightened(other).model_dump().items()
            }


def test_nothing_to_tighten_is_the_same_policy() -> None:
    """Tightening a policy with None or with itself changes nothing."""
    policy = ApprovalPolicy(denied_tools=["a"], run_tools=["b", "c.d.*"], expires_after=HOUR)
    assert policy.tightened(None) is policy
    assert policy.tightened(policy) == policy


@given(PATTERNS, PATTERNS, st.sampled_from(TOOLS))
def test_the_common_patterns_cover_the_tools_that_both_lists_cover(
    ours: list[str], theirs: list[str], tool: str
) -> None:
    """`in_both` covers exactly the tools that both lists cover: a toolset and one of its tools have that tool in common."""
    both = in_both(ours, theirs)
    assert matches_any(tool, both) is (matches_any(tool, ours) and matches_any(tool, theirs))
    assert len(set(both)) == len(both)


@pytest.mark.parametrize(
    "changes", [{"asks_for": "sometimes"}, {"expires_after": timedelta(0)}, {"run_tool": []}]
)
def test_a_policy_is_checked_where_it_is_made(changes: dict) -> None:
    """A misspelt rule, an unknown value or a wait of zero seconds raises a DefinitionError that names the field."""
    with pytest.raises(DefinitionError, match=next(iter(changes))):
        ApprovalPolicy(**changes)

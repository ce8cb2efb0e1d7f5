"""Decisions of a policy engine: their faults, and two decisions of a turn as one."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from sojourn.contracts.ids import matches_any
from sojourn.contracts.run_policy import Limits
from sojourn.core.run.policy import MAX_NAMES, merge_decisions, policy_fault, withheld_reason
from sojourn.policy import Caps, PolicyDecision


def test_an_empty_and_a_full_decision_have_no_fault() -> None:
    """A decision may have empty lists, or lists of 1,000 names and a reason of 1,000 characters."""
    names = ["a.b.c"] * MAX_NAMES
    full = PolicyDecision(
        allowed_tools=names, disable_tools=names, approve=names, ask=names, reason="x" * 1_000
    )
    assert policy_fault(PolicyDecision()) is policy_fault(full) is None


def test_an_invalid_decision_has_a_fault() -> None:
    """The fault says what a policy engine returns, or names the limit that the decision exceeds."""
    rows = [
        (None, "returns a PolicyDecision, not NoneType"),
        ({"allowed_tools": []}, "returns a PolicyDecision, not dict"),
        (PolicyDecision, "returns a PolicyDecision, not ModelMetaclass"),
        *(
            (PolicyDecision(**{name: ["a.b.c"] * (MAX_NAMES + 1)}), "at most 1,000 tools in each list")
            for name in ("allowed_tools", "disable_tools", "approve", "ask")
        ),
        (PolicyDecision(reason="x" * 1_001), "at most 1,000 characters"),
        (PolicyDecision(labels={str(n): "" for n in range(21)}), "at most 20 labels"),
        (PolicyDecision(labels={"x" * 257: ""}), "at most 256 characters"),
    ]
    assert [(decided, said) for decided, said in rows if said not in str(policy_fault(decided))] == []


def test_the_first_decision_is_unchanged() -> None:
    """Without a decision before it, a decision is returned as the same object, or as None if it changes nothing."""
    decision = PolicyDecision(reason="quiet hours")
    assert merge_decisions(None, decision) is decision
    assert merge_decisions(None, PolicyDecision()) is None


CAPS = Caps(tool_calls=5, time=timedelta(seconds=9))


def test_two_decisions_of_a_turn_are_one() -> None:
    """Limits of both decisions apply, the stricter one where they differ; labels are merged, and a later reason counts."""
    rows = [
        ({"allowed_tools": ["a.b.c", "d"]}, {"allowed_tools": ["d", "e"]}, {"allowed_tools": ["d"]}),
        ({"allowed_tools": ["ops.*"]}, {"allowed_tools": ["ops.d.list"]}, {"allowed_tools": ["ops.d.list"]}),
        ({"allowed_tools": ["ops.d.list"]}, {"allowed_tools": ["ops.*"]}, {"allowed_tools": ["ops.d.list"]}),
        ({"allowed_tools": []}, {"allowed_tools": ["*"]}, {"allowed_tools": []}),
        ({"allowed_tools": ["a"]}, {}, {"allowed_tools": ["a"]}),
        ({}, {"allowed_tools": []}, {"allowed_tools": []}),
        ({"disable_tools": ["a"]}, {"disable_tools": ["b", "a"]}, {"disable_tools": ["a", "b"]}),
        ({"approve": ["a"]}, {"approve": ["c1"]}, {"approve": ["a", "c1"]}),
        ({"ask": ["a"]}, {"ask": ["c1", "a"]}, {"ask": ["a", "c1"]}),
        ({"labels": {"a": "1", "b": "1"}}, {"labels": {"b": "2"}}, {"labels": {"a": "1", "b": "2"}}),
        ({"reason": "x"}, {"reason": "y"}, {"reason": "y"}),
        ({"reason": "x"}, {}, {"reason": "x"}),
        ({"caps": CAPS}, {}, {"caps": CAPS}),
        ({}, {"caps": CAPS}, {"caps": CAPS}),
        (
            {"caps": CAPS},
            {"caps": Caps(tool_calls=9, time=timedelta(seconds=1), tokens=7)},
            {"caps": Caps(tool_calls=5, time=timedelta(seconds=1), tokens=7)},
        ),
        ({"ask": ["a"]}, {}, {"ask": ["a"]}),
    ]
    assert [
        (before, decided, both, found)
        for before, decided, both in rows
        if (found := merge_decisions(PolicyDecision(**before), PolicyDecision(**decided)))
        != PolicyDecision(**both)
    ] == []


NAMES = st.lists(st.sampled_from(["*", "a.*", "a.b.*", "a.b.c", "a.b.d", "x.y.z"]), max_size=3)
DECISIONS = st.builds(PolicyDecision, allowed_tools=st.none() | NAMES, disable_tools=NAMES, ask=NAMES)


@given(DECISIONS, DECISIONS, st.sampled_from(["a.b.c", "a.b.d", "a.x.y", "x.y.z"]))
def test_a_later_decision_takes_back_no_prohibition(
    before: PolicyDecision, decided: PolicyDecision, tool: str
) -> None:
    """A tool may be used if both decisions allow it, and a person is asked if either requires it."""
    both = merge_decisions(before, decided)
    assert both is not None
    left = [withheld_reason(tool, [], Limits(), one) is None for one in (before, decided)]
    assert (withheld_reason(tool, [], Limits(), both) is None) is all(left)
    assert matches_any(tool, both.ask) is (matches_any(tool, before.ask) or matches_any(tool, decided.ask))

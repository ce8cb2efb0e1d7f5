"""Admission: the calls of a plan that are executed, and the limit that refuses the rest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn import ToolRequest
from sojourn.contracts.run_policy import Limits
from sojourn.core.run.plan_rules import Admission, admit, not_executed
from sojourn.policy import Caps
from sojourn.values.wire import MAX_STEP_BYTES


def calls(count: int, size: int = 0) -> list[ToolRequest]:
    return [ToolRequest(name="a.b.c", payload={"x": "y" * size}, tool_call_id=f"c{n}") for n in range(count)]


def test_the_tightest_limit_refuses() -> None:
    """As many calls as every limit allows are admitted, and the tightest limit is the reason for the rest."""
    rows = [
        (3, Caps(), Admission(3, None)),
        (64, Caps(), Admission(64, None)),
        (65, Caps(), Admission(64, "max_calls_per_step")),
        (3, Caps(tool_calls=3), Admission(3, None)),
        (4, Caps(tool_calls=3), Admission(3, "max_tool_calls")),
        (1, Caps(tool_calls=0), Admission(0, "max_tool_calls")),
        (100, Caps(tool_calls=70), Admission(64, "max_calls_per_step")),
        (1, Caps(rounds=1), Admission(1, None)),
        (1, Caps(rounds=0), Admission(0, "max_tool_rounds")),
        (0, Caps(tool_calls=0, rounds=0), Admission(0, None)),
    ]  # fmt: skip
    assert [
        (asked, caps, found)
        for asked, caps, expected in rows
        if (found := admit(calls(asked), caps, Limits())) != expected
    ] == []


def test_the_arguments_of_a_step_are_bounded_together() -> None:
    """Calls beyond 1,000,000 bytes of arguments are refused, since a step's calls are one workflow task's commands."""
    size = MAX_STEP_BYTES // 4
    assert admit(calls(5, size), Caps(), Limits()) == Admission(3, "plan_size")
    assert admit(calls(3, size), Caps(), Limits()) == Admission(3, None)


def test_a_limit_of_calls_that_is_reached_first_is_the_reason() -> None:
    """The arguments of calls that a limit refuses do not count."""
    assert admit(calls(5, MAX_STEP_BYTES // 3), Caps(tool_calls=1), Limits()) == Admission(
        1, "max_tool_calls"
    )


@given(
    st.integers(0, 90),
    st.none() | st.integers(0, 90),
    st.none() | st.integers(0, 3),
    st.integers(1, 90),
)
def test_exactly_as_many_calls_are_admitted_as_the_limits_allow(
    asked: int, left: int | None, rounds: int | None, per_step: int
) -> None:
    """No limit is exceeded, no call is refused that the limits allow, and refusals have a reason."""
    admission = admit(calls(asked), Caps(tool_calls=left, rounds=rounds), Limits(max_calls_per_step=per_step))
    allowed = 0 if rounds == 0 else min(per_step, asked if left is None else left)
    assert admission.count == min(asked, allowed)
    assert (admission.refused is None) is (admission.count == asked)


def test_a_refused_call_is_answered_as_not_executed(subtests: pytest.Subtests) -> None:
    """A refused call has a result that names the limit and says that the call did not run (SR-130, ME-24)."""
    rows = [
        ("max_calls_per_step", "at most 7 calls"),
        ("max_tool_calls", "used up"),
        ("max_tool_rounds", "maximum tool depth"),
        ("plan_size", "1,000,000 bytes"),
        ("a_later_limit", "a limit of the run"),
        (None, "a limit of the run"),
    ]
    for refused, said in rows:
        with subtests.test(refused=refused, said=said):
            (call,) = calls(1)
            result = not_executed(call, refused, Limits(max_calls_per_step=7))
            assert (result.name, result.tool_call_id) == ("a.b.c", "c0")
            assert result.error.code == "not_executed"
            assert result.error.message.startswith("not executed: ")
            assert said in result.error.message

"""Effects: which calls of a run stay unsettled, and until when."""

import pytest

from sojourn import RetryHint, ToolError, ToolRequest, ToolResult
from sojourn.contracts.dispatch import CarriedEffect, Dispatch, Effect
from sojourn.contracts.tasks import PlanOutcome
from sojourn.core.run.effects import (
    MAX_UNSETTLED,
    carried_after,
    has_step_acted,
    is_settled,
    is_unexecuted,
    unexecuted_after,
    unsettled_after,
)

UNKNOWN = ToolError(message="no answer", outcome_unknown=True)


def failed(reason: str | None, code: str = "x", **fields) -> ToolResult:
    hint = reason and RetryHint(reason=reason, tool="a.b.c", **fields)
    return ToolResult(error=ToolError(message="no", code=code), retry_hint=hint or None)


def step(*ids: str, **options) -> PlanOutcome:
    calls = [ToolRequest(name="a.b.c", tool_call_id=id) for id in ids]
    return PlanOutcome(calls=calls, dispatches=[Dispatch(**options)] * len(ids))


def test_what_settles_an_effect() -> None:
    """A success and a definite failure settle it, an unknown outcome opens it, and a call that never ran says nothing."""
    rows = [
        (ToolResult(result=1), True),
        (failed(None), True),
        (ToolResult(error=UNKNOWN), False),
        (failed("rate_limited", outcome_unknown=True), False),
        (failed("timeout"), False),
        (failed("malformed_response"), False),
        (failed(None, "canceled"), False),
        (failed(None, "time_budget"), False),
        (failed("rate_limited"), None),
        (failed("tool_unavailable"), None),
        (failed("invalid_arguments"), None),
        (failed(None, "denied"), None),
        (failed(None, "not_executed"), None),
    ]
    assert [(result, found) for result, settles in rows if (found := is_settled(result)) is not settles] == []


def test_an_effect_is_open_until_a_call_with_it_settles_it() -> None:
    """Repetitions count for the first call; a refusal of one changes nothing."""
    unknown, refused, done = ToolResult(error=UNKNOWN), failed("rate_limited"), ToolResult(result=1)
    after = unsettled_after((), step("a", "b"), [unknown, done])
    assert after == ("a",)
    again = {"effect": Effect(tool_call_id="a", idempotency_key="k")}
    for result in (unknown, refused):
        assert unsettled_after(after, step("c", **again), [result]) == ("a",)
    assert unsettled_after(after, step("c"), [done]) == ("a",)
    assert unsettled_after(after, step("c", **again), [done]) == ()


def test_only_calls_of_workers_have_an_effect_here() -> None:
    """A call that was answered at once never ran; the calls of other programs are theirs."""
    for kind in ("answered", "external"):
        assert unsettled_after((), step("a", kind=kind), [ToolResult(error=UNKNOWN)]) == ()


def test_a_call_of_an_agent_is_remembered_while_its_outcome_is_unknown() -> None:
    """A child run that may have acted leaves its call open, one that gave no answer that fits and did not act does not, and a success settles."""
    asked = step("a", kind="child")
    assert unsettled_after((), asked, [ToolResult(error=UNKNOWN)]) == ("a",)
    why = ToolError.new("gave up", code="gave_up")
    hint = RetryHint(reason="malformed_response", tool="x", message="ask for less")
    assert unsettled_after((), asked, [ToolResult(error=why, retry_hint=hint)]) == ()
    assert unsettled_after(("a",), asked, [ToolResult(error=why, retry_hint=hint)]) == ("a",)
    assert unsettled_after(("a",), asked, [ToolResult(result="paid")]) == ()


def test_the_newest_are_remembered() -> None:
    """A run remembers a bounded number of calls whose outcome is unknown."""
    ids = [f"c{n}" for n in range(MAX_UNSETTLED + 5)]
    after = unsettled_after((), step(*ids), [ToolResult(error=UNKNOWN)] * len(ids))
    assert after == tuple(ids[5:])


def test_an_effect_of_the_origin_is_settled_by_its_place() -> None:
    """A call of a fork settles the one effect that it has, also where two have the same id, and opens none of its own."""
    carried = tuple(
        CarriedEffect(call=ToolRequest(name="a.b.c", tool_call_id="c1"), idempotency_key=key) for key in "kl"
    )
    second = step("x", effect=Effect(tool_call_id="c1", idempotency_key="l", carried=1))
    for result in (ToolResult(error=UNKNOWN), failed("rate_limited")):
        assert carried_after(carried, second, [result]) == carried
        assert unsettled_after((), second, [result]) == ()
    first, taken = carried_after(carried, second, [ToolResult(result=1)])
    assert first == carried[0]
    assert taken == carried[1].model_copy(update={"taken": True})
    own = step("c1", effect=Effect(tool_call_id="c1", idempotency_key="l", carried=1))
    assert carried_after(carried, own, [ToolResult(result=1)]) == carried[:1]
    assert carried_after(carried, step("c1"), [ToolResult(result=1)]) == carried
    gone = step("c1", effect=Effect(tool_call_id="c1", idempotency_key="m", carried=2))
    assert carried_after(carried, gone, [ToolResult(result=1)]) == carried


def test_an_effect_of_the_origin_that_was_not_carried_out_may_happen() -> None:
    """A fork's call that repeats it leaves it in doubt if its own outcome is unknown, and only then."""
    carried = (CarriedEffect(call=ToolRequest(name="a.b.c", tool_call_id="c1"), unexecuted=True),)
    again = step("c1", effect=Effect(tool_call_id="c1", idempotency_key="k", carried=0, unexecuted=True))
    assert carried_after(carried, again, [failed("rate_limited")]) == carried
    (doubtful,) = carried_after(carried, again, [ToolResult(error=UNKNOWN)])
    assert not doubtful.unexecuted


def test_which_calls_lend_their_key_although_they_were_not_carried_out(subtests: pytest.Subtests) -> None:
    """Those whose key a service may know, and of which it says that they did nothing; a definite failure ends the effect."""
    rows = [
        (failed("rate_limited"), True),
        (failed("tool_unavailable"), True),
        (failed(None, "input_required"), True),
        (failed("tool_unavailable", outcome_unknown=True), False),
        (failed("invalid_arguments"), False),
        (failed(None, "denied"), False),
        (failed(None), False),
        (ToolResult(result=1), False),
    ]
    for result, is_kept in rows:
        with subtests.test(result=result, is_kept=is_kept):
            assert is_unexecuted(result) is is_kept
            assert unexecuted_after((), step("a"), [result]) == (("a",) if is_kept else ())


def test_a_call_that_was_not_carried_out_lends_its_key_until_an_equal_one_is_known() -> None:
    """A repetition counts for the first call: refused again, it stays; done, refused for certain or in doubt, it goes."""
    again = step("b", effect=Effect(tool_call_id="a", idempotency_key="k", unexecuted=True))
    assert unexecuted_after(("a",), again, [failed("rate_limited")]) == ("a",)
    for result in (ToolResult(result=1), failed(None), ToolResult(error=UNKNOWN)):
        assert unexecuted_after(("a",), again, [result]) == ()
    assert unsettled_after((), again, [ToolResult(error=UNKNOWN)]) == ("a",)
    in_doubt = step("b", effect=Effect(tool_call_id="a", idempotency_key="k"))
    assert unexecuted_after((), in_doubt, [failed("rate_limited")]) == ()
    assert unexecuted_after((), step("a", kind="child"), [failed("rate_limited")]) == ()


def test_a_step_acts_if_a_call_took_effect_or_may_have(subtests: pytest.Subtests) -> None:
    """A refusal, a call that was cut off before it began, and a tool that only reads have no effect."""
    rows = [
        (True, ToolResult(result=1), True),
        (True, ToolResult(error=UNKNOWN), True),
        (True, failed("ToolFailed"), False),
        (True, ToolResult(error=ToolError(message="cut", code="canceled", without_effect=True)), False),
        (False, ToolResult(result=1), False),
        (None, ToolResult(result=1), False),
    ]
    for may_act, result, expected in rows:
        with subtests.test(may_act=may_act, result=result, expected=expected):
            assert has_step_acted(step("a", may_act=may_act), [result]) is expected


def test_a_call_that_was_cut_off_before_it_began_leaves_nothing_open():
    """It is not unsettled, and leaves an earlier call with the same effect as it was."""
    cut = ToolResult(error=ToolError(message="cut", code="canceled", without_effect=True))
    assert is_settled(cut) is None
    assert unsettled_after((), step("a"), [cut]) == ()
    assert unsettled_after(
        ("a",), step("b", effect=Effect(tool_call_id="a", idempotency_key="k")), [cut]
    ) == ("a",)

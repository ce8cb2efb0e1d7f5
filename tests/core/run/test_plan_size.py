"""Plans within Temporal's limits: calls that are not executed lose their arguments, a larger plan is a fault."""

import pytest

from sojourn import Message, RetryHint, ToolError, ToolRequest, ToolResult
from sojourn.contracts.dispatch import Dispatch
from sojourn.contracts.run_policy import Limits
from sojourn.contracts.tasks import PlanOutcome
from sojourn.core.run.plan_rules import (
    fit_plan_bytes,
    payload_fault,
    trim_plan,
    without_payload,
    without_payloads,
)
from sojourn.values.wire import MAX_PAYLOAD_BYTES, MAX_PLAN_BYTES, size_of


def call(size: int = 0, **fields) -> ToolRequest:
    payload = {"x": "y" * size} if size else {}
    return ToolRequest(**{"name": "a.b.c", "payload": payload, "tool_call_id": "c1", **fields})


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        (call(MAX_PAYLOAD_BYTES), "too_large"),
        (call(raw="x" * MAX_PAYLOAD_BYTES), "too_large"),
        (call(payload={"x": float("inf")}), "number"),
        (call(payload={"x": "\ud800"}), "not_json"),
        (call(raw="\ud800"), "not_json"),
        (call(payload={"x": object()}), "not_json"),
    ],
    ids=["large", "large text", "endless", "half a character", "half a character of text", "object"],
)
def test_arguments_that_cannot_be_recorded_are_a_fault(request_: ToolRequest, kind: str) -> None:
    """Arguments over 512 KB, or that are no JSON, are a fault of their call."""
    fault = payload_fault(request_)
    assert fault is not None
    assert fault.kind == kind


def test_ordinary_arguments_fit() -> None:
    """Arguments just under 512 KB, and raw arguments, have no fault."""
    assert payload_fault(call(MAX_PAYLOAD_BYTES - 200)) is None
    assert payload_fault(call(raw='{"x": 1}')) is None


def test_a_call_without_its_arguments_has_their_size() -> None:
    """`{omitted, bytes}` takes the place of the arguments and of the raw text; name and id stay."""
    assert without_payload(call(100)) == call(payload={"omitted": True, "bytes": size_of({"x": "y" * 100})})
    assert without_payload(call(raw="ü" * 25)) == call(payload={"omitted": True, "bytes": 52}, raw=None)
    assert without_payload(call(payload={"x": "\ud800"})).payload == {"omitted": True}


def test_a_message_loses_the_arguments_of_the_named_calls() -> None:
    """`without_payloads` removes the arguments of the named calls, and leaves the rest of the message unchanged."""
    message = Message.calls([call(10), call(10, tool_call_id="c2")])
    assert without_payloads(None, {"c1"}) is None
    assert without_payloads(message, set()) is message
    first, second = without_payloads(message, {"c1"}).tool_calls
    assert first.payload == {"omitted": True, "bytes": size_of({"x": "y" * 10})}
    assert second == message.tool_calls[1]


def test_a_plan_that_fits_is_unchanged() -> None:
    """A plan that fits keeps everything except notes beyond 20 and their text beyond 2,000 characters."""
    plan = PlanOutcome(calls=[call(10)], dispatches=[Dispatch()], notes=["x"])
    assert trim_plan(plan) == plan
    assert trim_plan(PlanOutcome(notes=["x" * 5_000] * 30)).notes == ["x" * 2_000] * 20


def test_refused_calls_lose_their_arguments_first() -> None:
    """Admitted calls keep their arguments, refused ones lose them, and the message is dropped."""
    calls = [call(MAX_PLAN_BYTES // 3, tool_call_id=f"c{n}") for n in range(6)]
    plan = trim_plan(PlanOutcome(calls=calls, dispatches=[Dispatch()], message=Message.calls(calls)))
    assert plan.fault is None
    assert plan.message is None
    assert plan.calls[0] == calls[0]
    assert all(c.payload["omitted"] for c in plan.calls[1:])
    assert size_of(plan) <= MAX_PLAN_BYTES


@pytest.mark.parametrize(
    "plan",
    [
        PlanOutcome(final=Message.assistant("x" * MAX_PLAN_BYTES)),
        PlanOutcome(
            calls=[call(MAX_PLAN_BYTES // 3, tool_call_id=f"c{n}") for n in range(6)],
            dispatches=[Dispatch()] * 6,
        ),
    ],
    ids=["answer", "calls"],
)
def test_a_plan_that_is_too_large_is_a_fault(plan: PlanOutcome) -> None:
    """A plan that stays too large becomes a planner fault with the limit and a suggestion."""
    refused = trim_plan(plan)
    assert refused == PlanOutcome(fault=refused.fault)
    assert "1,500,000" in str(refused.fault)
    assert "answer more briefly" in str(refused.fault)


@pytest.mark.parametrize("result", [object(), "\ud800"], ids=["object", "half a character"])
def test_a_plan_that_is_no_json_is_a_fault(result: object) -> None:
    """A typed answer that cannot be written as JSON becomes a planner fault."""
    assert "cannot be written as JSON" in str(trim_plan(PlanOutcome(result=result)).fault)


def answered(size: int) -> Dispatch:
    """The dispatch of a call that was answered at once, with a hint of this size in characters."""
    hint = RetryHint(reason="invalid_arguments", tool="a.b.c", message="x" * size)
    return Dispatch(
        kind="answered", result=ToolResult(name="a.b.c", error=ToolError.new("no"), retry_hint=hint)
    )


def test_a_result_that_does_not_fit_in_the_plan_loses_its_hint() -> None:
    """A result that does not fit keeps its error; results before it, and a small one after it, keep their hints."""
    given = [answered(600_000), answered(600_000), answered(600_000), answered(10)]
    calls = [call(tool_call_id=f"c{n}") for n in range(4)]
    kept = fit_plan_bytes(calls, given, Limits())
    assert [made.result.retry_hint is None for made in kept] == [False, False, True, False]
    assert [made.result.error for made in kept] == [made.result.error for made in given]
    assert kept[0] is given[0]


@pytest.mark.parametrize(
    "large",
    [
        Dispatch(kind="child", messages=[Message.user("x" * 900_000)]),
        Dispatch(kind="external", payload={"x": "y" * 900_000}),
    ],
    ids=["a child's prompt", "changed arguments"],
)
def test_a_call_that_does_not_fit_in_the_plan_is_not_executed(large: Dispatch) -> None:
    """A dispatch whose messages or payload do not fit is refused; an ordinary call after it is still executed."""
    calls = [call(tool_call_id=f"c{n}") for n in range(3)]
    first, second, third = fit_plan_bytes(calls, [large, large, Dispatch()], Limits())
    assert (first, third) == (large, Dispatch())
    assert second.kind == "answered"
    assert (second.result.tool_call_id, second.result.error.code) == ("c1", "not_executed")


def test_the_arguments_of_the_calls_count_too() -> None:
    """The calls' arguments are in the plan's result beside the dispatches, so they leave less room for these."""
    large = Dispatch(kind="child", messages=[Message.user("x" * 900_000)])
    for size, kind in ((100, "child"), (500_000, "answered")):
        (made,) = fit_plan_bytes([call(size)], [large], Limits())
        assert made.kind == kind

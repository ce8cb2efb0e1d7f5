"""EffectsMade: which calls of its origin a fork carries, and with which key."""

from collections.abc import Mapping
from typing import Any

from sojourn import RetryHint, ToolError, ToolRequest, ToolResult
from sojourn.contracts.dispatch import CarriedEffect, Dispatch, Effect
from sojourn.contracts.tool_call import ToolCallMeta
from sojourn.core.history.fold import Fold
from sojourn.core.history.fork_points import EffectsMade, MadeCall
from sojourn.core.payload.parse import arguments_digest, has_digest
from sojourn.core.run.effects import MAX_UNSETTLED
from sojourn.core.schema.validate import Validator

DONE, REFUSED = ToolResult(result=1), ToolResult(error=ToolError(message="no"))


def made(
    *calls: tuple[str, ToolResult | None, Dispatch], payload: Mapping[str, Any] | None = None
) -> EffectsMade:
    """The effects of a run that made these calls, each in a step of its own."""
    effects = EffectsMade(Fold("run"), reads=("a.b.read",))
    for number, (call_id, result, dispatch) in enumerate(calls, 1):
        tool, _, _ = call_id.partition("-")
        call = ToolRequest(name=f"a.b.{tool}", payload=dict(payload or {}), tool_call_id=call_id)
        effects.made[call_id] = MadeCall(call, dispatch, number)
        if result:
            effects.results[call_id] = result
    return effects


def after(effects: EffectsMade, steps: int = 0, **options: Any) -> tuple[CarriedEffect, ...]:
    known: dict[str, Any] = {
        "again": (),
        "unsettled": (),
        "unexecuted": (),
        "carried": (),
        "key_run_id": "run",
    } | options
    return effects.after(steps, **known)


def ids(carried: tuple[CarriedEffect, ...]) -> list[str]:
    return [each.call.tool_call_id for each in carried]


def test_what_was_refused_or_only_reads_or_never_began_is_not_carried() -> None:
    """Of the calls after the point, those that may have had an effect are carried, and those that are carried out again."""
    effects = made(
        ("pay-1", DONE, Dispatch()),
        ("pay-2", REFUSED, Dispatch()),
        ("read-3", DONE, Dispatch()),
        ("pay-4", None, Dispatch()),
        ("pay-5", DONE, Dispatch(kind="local")),
    )
    assert ids(after(effects)) == ["pay-1", "pay-5"]
    assert ids(after(effects, 1)) == ["pay-5"]
    assert ids(after(effects, 1, again=("pay-1",))) == ["pay-1", "pay-5"]


def test_a_repetition_is_carried_once() -> None:
    """A call that repeats an effect is that effect: of the run's own, of one before the point, or of its own origin."""
    again = Dispatch(effect=Effect(tool_call_id="pay-1", idempotency_key="k"))
    of_origin = Dispatch(effect=Effect(tool_call_id="x", idempotency_key="l", carried=0))
    unknown = ToolResult(error=ToolError(message="lost", outcome_unknown=True))
    effects = made(
        ("pay-1", unknown, Dispatch()),
        ("pay-2", unknown, again),
        ("pay-3", DONE, again),
        ("pay-4", DONE, of_origin),
    )
    carried = CarriedEffect(call=ToolRequest(name="a.b.pay", tool_call_id="x"), idempotency_key="l")
    assert ids(after(effects, carried=(carried,))) == ["x", "pay-1"]
    assert ids(after(effects, 1, unsettled=("pay-1",))) == []
    settled = after(effects, 1)
    assert ids(settled) == ["pay-2"]
    assert settled[0].idempotency_key == "k"


AWAY = ToolResult(
    error=ToolError(message="away"), retry_hint=RetryHint(reason="tool_unavailable", tool="a.b.pay")
)


def test_what_was_not_carried_out_lends_its_key_to_a_fork() -> None:
    """It is marked so, unless the origin had the effect later; a fork that knows its key already takes it from the call before."""
    again = Dispatch(effect=Effect(tool_call_id="pay-1", idempotency_key="k", unexecuted=True))
    (one,) = after(made(("pay-1", AWAY, Dispatch()), ("pay-2", AWAY, again)))
    assert one.unexecuted
    assert one.step
    effects = made(("pay-1", AWAY, Dispatch()), ("pay-2", DONE, again))
    (one,) = after(effects)
    assert not one.unexecuted
    assert effects.effects_after(0, again=()) == effects.effects_after(1, again=()) == {"pay-1"}
    (later,) = after(effects, 1, unexecuted=("pay-1",))
    assert (later.call.tool_call_id, later.idempotency_key, later.unexecuted) == ("pay-2", "k", False)
    assert after(made(("pay-1", AWAY, Dispatch()), ("pay-2", AWAY, again)), 1, unexecuted=("pay-1",)) == ()


def test_an_effect_of_an_origin_that_its_fork_has_had_may_have_happened_for_the_next_fork() -> None:
    """A fork carried a call that was not carried out, and made it: its own fork is told that it may have happened."""
    calls = [ToolRequest(name="a.b.pay", tool_call_id=call_id) for call_id in ("x", "y")]
    carried = tuple(CarriedEffect(call=call, unexecuted=True) for call in calls)
    of_origin = Dispatch(effect=Effect(tool_call_id="x", idempotency_key="l", carried=0, unexecuted=True))
    had, other = after(made(("pay-1", DONE, of_origin)), carried=carried)
    assert (had.unexecuted, other.unexecuted) == (False, True)
    assert after(made(("pay-1", AWAY, of_origin)), carried=carried) == carried


def test_what_was_not_carried_out_makes_room_first() -> None:
    """Of more effects than a fork carries, those that may have happened stay."""
    refused = [(f"pay-{n}", AWAY, Dispatch()) for n in range(3)]
    done = [(f"buy-{n}", DONE, Dispatch()) for n in range(MAX_UNSETTLED - 1)]
    assert ids(after(made(*done, *refused))) == [*(call_id for call_id, _, _ in done), "pay-2"]


def test_what_is_carried_is_bounded() -> None:
    """The newest effects are carried; large arguments only by their digest and key, in which equal numbers are equal."""
    effects = made(*((f"pay-{n}", DONE, Dispatch()) for n in range(MAX_UNSETTLED + 5)))
    assert ids(after(effects))[0] == "pay-5"
    payload = {"amount": 30, "text": "x" * 100_000, "list": [{"n": 1.5}]}
    (large,) = after(made(("pay-1", DONE, Dispatch()), payload=payload))
    assert large.call.payload == {}
    assert large.digest == arguments_digest(payload | {"amount": 30.0})
    assert large.digest != arguments_digest(payload | {"amount": 31})
    call = ToolRequest(name="a.b.pay", payload=payload, tool_call_id="pay-1")
    assert large.idempotency_key == ToolCallMeta.key_of("run", call)
    (same,) = after(made(), carried=(large,))
    assert same == large


def test_as_many_arguments_as_a_plan_holds_are_carried_in_full() -> None:
    """The newest effects that may have happened keep theirs first; the others are known by their digests."""
    calls = [(f"pay-{n}", DONE, Dispatch()) for n in range(9)]
    carried = after(made(*calls, ("buy-9", AWAY, Dispatch()), payload={"text": "x" * 10_000}))
    assert [each.call.tool_call_id for each in carried if not each.digest] == [
        f"pay-{n}" for n in range(3, 9)
    ]
    assert all(each.idempotency_key for each in carried if each.digest)


def test_the_digest_of_large_arguments_is_made_with_defaults_and_without_injected_fields() -> None:
    """If the app is known, whoever spells out a default, or makes up an injected field, makes the same call."""
    payload = {"text": "x" * 20_000, "desk": "made up"}
    effects = made(("pay-1", DONE, Dispatch()), payload=payload)
    schema = {"type": "object", "properties": {"text": {}, "a": {"default": 1}, "b": {"default": 2}}}
    effects.injected, effects.validators = {"a.b.pay": ["desk"]}, {"a.b.pay": Validator(schema)}
    (large,) = after(effects)
    assert has_digest(Validator(schema), {"text": payload["text"], "a": 1}, large.digest)
    call = ToolRequest(name="a.b.pay", payload={"text": payload["text"]}, tool_call_id="pay-1")
    assert large.idempotency_key == ToolCallMeta.key_of("run", call)


def test_a_call_with_a_key_of_its_own_is_carried_with_it() -> None:
    """The id of the fork would make another key for a call in doubt, or not carried out, whose usual key another call has."""
    own = Dispatch(effect=Effect(tool_call_id="pay-1", idempotency_key="own", unexecuted=True))
    effects = made(("pay-1", None, own), ("pay-2", None, Dispatch()))
    assert [effects.has_own_key(call_id, 2) for call_id in ("pay-1", "pay-2", "pay-3")] == [
        True,
        False,
        False,
    ]
    (doubt,) = after(effects, 2, unsettled=("pay-1", "pay-2"))
    assert (doubt.call.tool_call_id, doubt.idempotency_key, doubt.unexecuted) == ("pay-1", "own", False)
    (refused,) = after(effects, 2, unexecuted=("pay-1",))
    assert refused.unexecuted


def test_a_call_of_another_branch_with_the_id_of_one_in_doubt_is_an_effect_of_its_own() -> None:
    """The state at the point knows the older call, and the newer one is carried beside it."""
    own = Dispatch(effect=Effect(tool_call_id="pay-1", idempotency_key="own"))
    for known in ("unsettled", "unexecuted"):
        effects = made(("pay-1", None, Dispatch()))
        effects._make_way("pay-1", 1)
        call = ToolRequest(name="a.b.pay", payload={"order": 2}, tool_call_id="pay-1")
        effects.made["pay-1"], effects.results["pay-1"] = MadeCall(call, Dispatch(), 2, 1), DONE
        (carried,) = after(effects, 1, **{known: ("pay-1",)})
        assert (carried.call, carried.unexecuted) == (call, False)
        assert effects.effects_after(1, again=()) == set()
        effects.made["pay-1"] = MadeCall(call, own, 2, 1)
        assert [effects.has_own_key("pay-1", steps) for steps in (1, 2)] == [False, True]
        assert [each.call for each in after(effects, 1, **{known: ("pay-1",)})] == [call]

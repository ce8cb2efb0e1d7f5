"""The calls with an effect that a run has made, and those of them that a fork from an earlier point has to know."""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from sojourn.contracts.carried_effect import CarriedEffect
from sojourn.contracts.dispatch import Dispatch
from sojourn.contracts.event import Event
from sojourn.contracts.tasks import PlanOutcome
from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.history.fold import Fold
from sojourn.core.payload.boundary import parsed_call
from sojourn.core.payload.parse import ParseFault
from sojourn.core.run.effects import MAX_UNSETTLED, has_effect, is_settled

__all__ = ["EffectsMade", "MadeCall", "arguments_digest"]

MAX_ARGUMENTS = 500
"""Most characters of a call's arguments that a fork carries in full; it carries the digest of larger ones."""


@dataclass(frozen=True, slots=True)
class MadeCall:
    """A call that a worker was to carry out."""

    call: ToolRequest
    dispatch: Dispatch
    step: int
    """The number of its step among those that were read."""


@dataclass(slots=True)
class EffectsMade:
    """Takes a run's history records in order, each with its events, and keeps the calls that may have had an effect.

    Args:
        fold: The fold that has made the events.
    """

    fold: Fold
    reads: Collection[str] = ()
    """The ids of tools that only read, as far as they are known: their calls are not carried."""
    steps: int = 0
    """Number of steps so far."""
    made: dict[str, MadeCall] = field(default_factory=dict[str, MadeCall])
    """The calls, by id, in order."""
    results: dict[str, ToolResult] = field(default_factory=dict[str, ToolResult])
    """The results of calls, by id."""
    _begun: set[str] = field(default_factory=set[str])
    _plan: PlanOutcome | None = None

    def feed(self, events: Sequence[Event]) -> None:
        """Take in the next record's events."""
        plan = self.fold.step.plan
        if plan.calls and plan is not self._plan:
            self._plan, self.steps = plan, self.steps + 1
            for call, dispatch in zip(plan.calls, plan.dispatches, strict=False):
                if has_effect(dispatch):
                    self.made.setdefault(call.tool_call_id, MadeCall(call, dispatch, self.steps))
        for event in events:
            if event.type == "tool_start":
                self._begun.add(event.call.tool_call_id)
            elif event.type == "tool_end":
                self.results[event.tool_call_id] = event.result

    def may_have_acted(self, call_id: str) -> bool:
        """Whether a call succeeded, or may have taken effect; False for one that was refused for certain, or did not run."""
        result = self.results.get(call_id)
        if result is None:
            return call_id in self._begun
        return result.error is None or is_settled(result) is False

    def after(
        self,
        steps: int,
        *,
        again: Collection[str],
        unsettled: Collection[str],
        carried: Sequence[CarriedEffect],
        key_run_id: str,
    ) -> tuple[CarriedEffect, ...]:
        """The effects that a fork carries, oldest first.

        Args:
            steps: Number of steps up to the fork's point.
            again: The ids of earlier calls that the fork carries out again.
            unsettled: The calls whose outcome is unknown at the point: the fork knows their effects already.
            carried: The effects that the run itself, as a fork, carried at the point.
            key_run_id: The run by whose id keys are made.
        """
        known, made = {*unsettled}, list[CarriedEffect]()
        for call_id, each in self.made.items():
            is_before = each.step <= steps and call_id not in again
            if is_before or each.call.name in self.reads or not self.may_have_acted(call_id):
                continue
            effect = each.dispatch.effect
            # A repetition is the effect that it repeats.
            if effect and (effect.carried is not None or effect.tool_call_id in known):
                continue
            known.add(effect.tool_call_id if effect else call_id)
            made.append(_carried(each.call, effect.idempotency_key if effect else "", key_run_id))
        return (*carried, *made)[-MAX_UNSETTLED:]


def arguments_digest(arguments: Mapping[str, Any]) -> str:
    """The digest of a call's arguments, equal for equal ones."""
    canonical = json.dumps(_plain(arguments), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:32]


def _carried(call: ToolRequest, key: str, key_run_id: str) -> CarriedEffect:
    size = len(call.raw) if call.raw is not None else len(json.dumps(call.payload))
    if size <= MAX_ARGUMENTS:
        return CarriedEffect(call=call, idempotency_key=key, step=True)
    read = parsed_call(call)
    bare = ToolRequest(name=call.name, tool_call_id=call.tool_call_id)
    if isinstance(read, ParseFault):
        return CarriedEffect(call=bare, digest="unreadable", idempotency_key=key, step=True)
    return CarriedEffect(
        call=bare,
        digest=arguments_digest(read.payload),
        idempotency_key=key or ToolCallMeta.key_of(key_run_id, read),
        step=True,
    )


def _plain(value: Any) -> Any:
    """A JSON value whose equal numbers are written equally."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list):
        return [_plain(each) for each in cast("list[Any]", value)]
    return int(value) if isinstance(value, float) and value.is_integer() else value

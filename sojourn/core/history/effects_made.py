"""The calls with an effect that a run has made, and those of them that a fork from an earlier point has to know."""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from sojourn.contracts.carried_effect import CarriedEffect
from sojourn.contracts.dispatch import Dispatch
from sojourn.contracts.event import Event
from sojourn.contracts.tasks import PlanOutcome
from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.history.fold import Fold
from sojourn.core.payload.arguments import arguments_digest
from sojourn.core.payload.boundary import parsed_call
from sojourn.core.payload.parse import ParseFault
from sojourn.core.run.effects import MAX_UNSETTLED, has_effect, is_settled, is_unexecuted

__all__ = ["EffectsMade", "MadeCall"]

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

    def is_unexecuted(self, call_id: str) -> bool:
        """Whether the tool has refused a call as not carried out."""
        result = self.results.get(call_id)
        return result is not None and is_unexecuted(result)

    def after(
        self,
        steps: int,
        *,
        again: Collection[str],
        unsettled: Collection[str],
        unexecuted: Collection[str],
        carried: Sequence[CarriedEffect],
        key_run_id: str,
    ) -> tuple[CarriedEffect, ...]:
        """The effects that a fork carries, oldest first.

        Args:
            steps: Number of steps up to the fork's point.
            again: The ids of earlier calls that the fork carries out again.
            unsettled: The calls whose outcome is unknown at the point: the fork knows their effects already.
            unexecuted: The calls that were not carried out before the point: the fork knows their keys.
            carried: The effects that the run itself, as a fork, carried at the point.
            key_run_id: The run by whose id keys are made.
        """
        before, made = list(carried), dict[str, CarriedEffect]()
        for call_id, each in self._after(steps, again):
            effect, has_acted = each.dispatch.effect, self.may_have_acted(call_id)
            first = effect.tool_call_id if effect else call_id
            # A repetition is the effect that it repeats.
            if effect and effect.carried is not None:
                if has_acted:
                    before = [_acted(one) if one.call.tool_call_id == first else one for one in before]
            elif first in made:
                made[first] = _acted(made[first]) if has_acted else made[first]
            elif first not in unsettled and (has_acted or first not in unexecuted):
                key = effect.idempotency_key if effect else ""
                one = _carried(each.call, key, key_run_id)
                made[first] = one if has_acted else one.model_copy(update={"unexecuted": True})
        return _newest([*before, *made.values()])

    def acted_after(self, steps: int, *, again: Collection[str]) -> set[str]:
        """The first calls of the effects that the run has had, or may have had, after a point; takes the arguments of `after`."""
        return {
            each.dispatch.effect.tool_call_id if each.dispatch.effect else call_id
            for call_id, each in self._after(steps, again)
            if self.may_have_acted(call_id)
        }

    def _after(self, steps: int, again: Collection[str]) -> Iterator[tuple[str, MadeCall]]:
        """The calls after a point that may have had an effect, or whose key a service may know."""
        for call_id, each in self.made.items():
            is_before = each.step <= steps and call_id not in again
            if is_before or each.call.name in self.reads:
                continue
            if self.may_have_acted(call_id) or self.is_unexecuted(call_id):
                yield call_id, each


def _newest(effects: list[CarriedEffect]) -> tuple[CarriedEffect, ...]:
    """As many effects as a fork carries: first those that may have happened, of them the newest."""
    surplus = len(effects) - MAX_UNSETTLED
    dropped = sorted(range(len(effects)), key=lambda at: not effects[at].unexecuted)[: max(surplus, 0)]
    return tuple(each for at, each in enumerate(effects) if at not in dropped)


def _acted(effect: CarriedEffect) -> CarriedEffect:
    """The effect, which may have happened."""
    return effect.model_copy(update={"unexecuted": False}) if effect.unexecuted else effect


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

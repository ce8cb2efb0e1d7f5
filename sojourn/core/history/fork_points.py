"""Points from which a run can be forked, with the effects to carry over."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sojourn.contracts.dispatch import CarriedEffect, Dispatch
from sojourn.contracts.event import Event
from sojourn.contracts.message import Message
from sojourn.contracts.tasks import PlanOutcome, PlanTask
from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.history.fold import Fold
from sojourn.core.history.fold_step import StepSoFar
from sojourn.core.history.record import HistoryRecord
from sojourn.core.history.transcript import TranscriptProjection
from sojourn.core.payload.boundary import parse_call
from sojourn.core.payload.parse import ParseFault, arguments_digest
from sojourn.core.run.continuation import Continuation
from sojourn.core.run.effects import MAX_UNSETTLED, has_acted, has_effect, is_unexecuted
from sojourn.core.run.state import RunState
from sojourn.core.schema.defaults import with_defaults
from sojourn.core.schema.validate import Validator

__all__ = ["EffectsMade", "ForkPoint", "ForkPoints", "MadeCall", "as_done"]

MAX_ARGUMENTS = 16_000
"""Longest arguments of a call that a fork carries in full, in characters.

Of longer ones, it carries the digest.
"""

MAX_ALL_ARGUMENTS = 64_000
"""Most characters of the arguments of all calls that a fork carries in full, since each plan of the fork gets them."""


@dataclass(frozen=True, slots=True)
class MadeCall:
    """A call that a worker was to carry out."""

    call: ToolRequest
    dispatch: Dispatch
    step: int
    """The number of its step among those that were read."""
    branches: int = 0
    """`RunState.branches` when it was planned."""


@dataclass(slots=True)
class EffectsMade:
    """Collects the calls of a run that may have had an effect."""

    fold: Fold
    reads: Collection[str] = ()
    """The ids of known tools that only read. Their calls are not carried."""
    injected: Mapping[str, Collection[str]] = field(default_factory=dict[str, Collection[str]])
    """The injected fields of known tools, by id. They are no arguments of a call."""
    validators: Mapping[str, Validator] = field(default_factory=dict[str, Validator])
    """The validators of known tools, by id.

    Digests are those of arguments with all defaults.
    """
    is_branch: bool = False
    """Whether the point begins a branch of the run itself, and not a fork."""
    steps: int = 0
    made: dict[str, MadeCall] = field(default_factory=dict[str, MadeCall])
    results: dict[str, ToolResult] = field(default_factory=dict[str, ToolResult])
    _begun: set[str] = field(default_factory=set[str])
    _plan: PlanOutcome | None = None

    def feed(self, events: Sequence[Event]) -> None:
        step = self.fold.step  # a copy
        plan = step.plan
        if plan.calls and plan is not self._plan:
            self._plan, self.steps = plan, self.steps + 1
            branches = self.fold.state.branches
            for call, dispatch in zip(plan.calls, plan.dispatches, strict=False):
                if has_effect(dispatch):
                    self._make_way(call.tool_call_id, branches)
                    made = MadeCall(call, dispatch, self.steps, branches)
                    self.made.setdefault(call.tool_call_id, made)
        for call_id, edit in step.edits.items():
            made = self.made.get(call_id)
            if made and made.call.payload is not edit.arguments:
                dispatch = made.dispatch.model_copy(update={"effect": None})
                self.made[call_id] = replace(made, call=made.call.edited(edit.arguments), dispatch=dispatch)
        for event in events:
            if event.type == "tool_start":
                self._begun.add(event.call.tool_call_id)
            elif event.type == "tool_end":
                self.results[event.tool_call_id] = event.result

    def _make_way(self, call_id: str, branches: int) -> None:
        """Rename a call of another branch that had this id too."""
        known = self.made.get(call_id)
        if known is None or known.branches == branches:
            return
        name = f"{call_id}/{known.branches}"
        self.made[name] = self.made.pop(call_id)
        if call_id in self._begun:
            self._begun.remove(call_id)
            self._begun.add(name)
        if call_id in self.results:
            self.results[name] = self.results.pop(call_id)

    def may_have_acted(self, call_id: str) -> bool:
        """Return whether a call succeeded, or may have taken effect.

        False for a call that was refused for certain, or did not run.
        """
        result = self.results.get(call_id)
        if result is None:
            return call_id in self._begun
        return has_acted(result)

    def is_unexecuted(self, call_id: str) -> bool:
        """Return whether the tool has refused a call as not carried out."""
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
        """Return the effects that a fork carries, oldest first.

        Args:
            steps: Number of steps up to the fork's point.
            again: The ids of earlier calls that the fork carries out again.
            unsettled: The calls whose outcome is unknown at the point: the fork knows their effects already.
            unexecuted: The calls that were not carried out before the point: the fork knows their keys.
            carried: The effects that the run itself, as a fork, carried at the point.
            key_run_id: The run by whose id keys are made.
        """
        before = list(carried) if self.is_branch else [_of_origin(each) for each in carried]
        made = dict[str, CarriedEffect]()
        for call_id, each in self._after(steps, again):
            effect, has_acted = each.dispatch.effect, self.may_have_acted(call_id)
            first = _first_of(call_id, each)
            # A call of another branch may have the id of one that the state at the point knows.
            is_new = first == call_id and each.step > steps
            # A repetition is the effect that it repeats.
            if effect and effect.carried is not None:
                if has_acted:
                    before = [as_done(one) if one.call.tool_call_id == first else one for one in before]
            elif first in made:
                made[first] = as_done(made[first]) if has_acted else made[first]
            elif is_new or (first not in unsettled and (has_acted or first not in unexecuted)):
                made[first] = self._carry(each, unexecuted=not has_acted)
        own = [
            self._carry(self.made[name], unexecuted=call_id not in unsettled)
            for call_id in (*unsettled, *unexecuted)
            if self.has_own_key(call_id, steps) and (name := self._name_at(call_id, steps)) not in made
        ]
        return self._within(_keep_newest([*before, *own, *made.values()]), key_run_id)

    def _carry(self, made: MadeCall, *, unexecuted: bool) -> CarriedEffect:
        effect = made.dispatch.effect
        key = effect.idempotency_key if effect else ""
        return CarriedEffect(
            call=made.call, idempotency_key=key, step=True, unexecuted=unexecuted, branch=self.is_branch
        )

    def _name_at(self, call_id: str, steps: int) -> str:
        """Return the key in `made` of the call that had an id at a point, or ""."""
        made = self.made.get(call_id)
        if made is None or made.step <= steps:
            return call_id
        others = [
            (each.step, name)
            for name, each in self.made.items()
            if each.call.tool_call_id == call_id and each.step <= steps
        ]
        return max(others)[1] if others else ""

    def has_own_key(self, call_id: str, steps: int) -> bool:
        """Return whether a call before a point has a key made from this run's id.

        The call repeats nothing, and the usual key belongs to another call.
        """
        made = self.made.get(self._name_at(call_id, steps))
        effect = made.dispatch.effect if made else None
        return effect is not None and effect.carried is None and effect.tool_call_id == call_id

    def effects_after(self, steps: int, *, again: Collection[str]) -> set[str]:
        """Return the calls up to a point whose effects a run may have had after it."""
        return {
            first
            for call_id, each in self._after(steps, again)
            if self.may_have_acted(call_id)
            and ((first := _first_of(call_id, each)) != call_id or each.step <= steps)
        }

    def _within(self, effects: Sequence[CarriedEffect], key_run_id: str) -> tuple[CarriedEffect, ...]:
        # Effects that may have happened have priority, and among them the newest.
        within, left = list(effects), MAX_ALL_ARGUMENTS
        for at in sorted(range(len(effects)), key=lambda at: (effects[at].unexecuted, -at)):
            size = _size(effects[at].call)
            if size > min(left, MAX_ARGUMENTS) and not effects[at].digest:
                within[at] = self._replace_by_digest(effects[at], key_run_id)
            else:
                left -= size
        return tuple(within)

    def _replace_by_digest(self, effect: CarriedEffect, key_run_id: str) -> CarriedEffect:
        call = effect.call
        read = parse_call(call, self.injected.get(call.name, ()))
        bare = ToolRequest(name=call.name, tool_call_id=call.tool_call_id)
        if isinstance(read, ParseFault):
            return effect.model_copy(update={"call": bare, "digest": "unreadable"})
        validator = self.validators.get(call.name)
        arguments = with_defaults(validator, read.payload) if validator else read.payload
        key = effect.idempotency_key or ToolCallMeta.key_of(key_run_id, read)
        digest = arguments_digest(arguments)
        return effect.model_copy(update={"call": bare, "digest": digest, "idempotency_key": key})

    def _after(self, steps: int, again: Collection[str]) -> Iterator[tuple[str, MadeCall]]:
        # A call matters if it may have had an effect, or if a service may know its key.
        for call_id, each in self.made.items():
            is_before = each.step <= steps and call_id not in again
            if is_before or each.call.name in self.reads:
                continue
            if self.may_have_acted(call_id) or self.is_unexecuted(call_id):
                yield call_id, each


def _first_of(call_id: str, made: MadeCall) -> str:
    """Return the first call with the effect of a call, or the call itself."""
    effect = made.dispatch.effect
    if effect is None or effect.tool_call_id == made.call.tool_call_id:
        return call_id
    return effect.tool_call_id


def _keep_newest(effects: list[CarriedEffect]) -> tuple[CarriedEffect, ...]:
    # Effects that may have happened have priority, and among them the newest.
    surplus = len(effects) - MAX_UNSETTLED
    dropped = sorted(range(len(effects)), key=lambda at: not effects[at].unexecuted)[: max(surplus, 0)]
    return tuple(each for at, each in enumerate(effects) if at not in dropped)


def as_done(effect: CarriedEffect) -> CarriedEffect:
    """An effect, once it may have happened."""
    return effect.model_copy(update={"unexecuted": False}) if effect.unexecuted else effect


def _of_origin(effect: CarriedEffect) -> CarriedEffect:
    """An effect of another branch, as a fork knows it."""
    return effect.model_copy(update={"branch": False}) if effect.branch else effect


def _size(call: ToolRequest) -> int:
    return len(call.raw) if call.raw is not None else len(json.dumps(call.payload))


@dataclass(frozen=True, slots=True)
class ForkPoint:
    """The state of a run at one moment."""

    event_id: str
    """The last event up to this point."""
    state: RunState
    transcript: tuple[Message, ...]
    """The messages before those that are new to the next plan."""
    waits_for: PlanOutcome | None = None
    """The plan whose question or sleep the run waited for."""
    step: StepSoFar | None = None
    """The open step, if the point is not between a step and a plan.

    Some of its calls were answered.
    """
    steps: int = 0
    """Number of steps that were read up to this point, that step included."""


@dataclass(slots=True)
class ForkPoints:
    """Collects the newest point of each kind from which a run can be forked."""

    fold: Fold
    last: ForkPoint | None = None
    """The newest point from which a run can continue."""
    answered: ForkPoint | None = None
    """After the final answer: only a further message continues from there."""
    asked: ForkPoint | None = None
    """The point of the planner's last question."""
    step: ForkPoint | None = None
    """The last step, with the answers that its calls have."""
    calls: dict[str, str] = field(default_factory=dict[str, str])
    """The call that each wait for an approval is about, by the id of the wait."""
    transcript: TranscriptProjection = field(init=False)
    effects: EffectsMade = field(init=False)
    """The calls with an effect, also those after the points."""
    _plan: PlanOutcome | None = None
    _is_in_step: bool = False
    """Whether no plan has begun since."""
    _results: int = 0
    _event_id: str = ""

    def __post_init__(self) -> None:
        self.transcript = TranscriptProjection(self.fold)
        self.effects = EffectsMade(self.fold)

    def feed(self, record: HistoryRecord, events: list[Event]) -> None:
        self.effects.feed(events)
        self.transcript.feed(record, events)
        self._event_id = events[-1].event_id if events else self._event_id or self.fold.place_of(record)
        for event in events:
            if event.type == "await_confirmation":
                self.calls[event.confirmation.id] = event.confirmation.tool_call_id
        if record.kind == "run_completed" and self.answered:
            self.answered = self._point()
        elif record.kind.startswith("run_"):
            return
        elif self.fold.is_beside_step:
            self._take_interim()
        elif isinstance(record.value, PlanTask):
            self._is_in_step = False
        elif isinstance(record.value, PlanOutcome) and record.value.final and not self.fold.state.phase:
            self.answered = self._point()
        else:
            self._take_point(record)

    def _take_point(self, record: HistoryRecord) -> None:
        state, step = self.fold.state, self.fold.step
        if step.plan.calls and step.plan is not self._plan:
            self._plan, self._results, self._is_in_step = step.plan, 0, True
            self.step = self._point(step=step)
        if self.fold.waits_for:
            if self.last is None or self.last.waits_for is not self.fold.waits_for:
                self.last = self._point(waits_for=self.fold.waits_for)
            if self.fold.waits_for.await_:
                self.asked = self.last
        elif state.is_idle or (isinstance(record.value, Continuation) and record.value.forked):
            self.last = self._point()
        elif state.new:
            if self._is_in_step:
                self.step = self._point(step=step)
            self.last = self._point()
        elif self._is_in_step and len(step.results) > self._results:
            self._results, self.step = len(step.results), self._point(step=step)
            self.last = self.step

    def _take_interim(self) -> None:
        """Take a point in a step, at which the run knows one message more."""
        if self._is_in_step:
            self.step = self.last = self._point(step=self.fold.step)

    def _point(self, *, waits_for: PlanOutcome | None = None, step: StepSoFar | None = None) -> ForkPoint:
        messages = tuple(self.transcript.messages)
        return ForkPoint(self._event_id, self.fold.state, messages, waits_for, step, self.effects.steps)

"""Fold the plans that answer a message while the approvals of a step are open."""

from collections.abc import Iterator
from datetime import datetime

from sojourn.contracts.dispatch import WRONG_WORKER
from sojourn.contracts.event import (
    AssistantMessageEvent,
    Event,
    InterimAnswerEvent,
    PlannerNoteEvent,
    PlanStartedEvent,
    TurnSteeredEvent,
    UsageEvent,
)
from sojourn.contracts.tasks import PlanOutcome, PlanTask
from sojourn.contracts.tool_error import ToolError
from sojourn.core.history.record import FoldState, HistoryRecord
from sojourn.core.run.interim import answering
from sojourn.core.run.outcomes import correct_usage, plan_fault, unusable_plan
from sojourn.core.run.turns import apply_interim, begin_interim, fail_interim
from sojourn.values.frozen import copy_with
from sojourn.values.undecodable import Undecodable

__all__ = ["InterimFold"]


class InterimFold:
    def __init__(self, fold: FoldState) -> None:
        self._fold = fold
        self._begun: dict[int, datetime | None] = {}
        """When each plan under way was scheduled, or None if its time does not count, by the event that did so."""
        self.has_last = False
        """Whether the last record belongs to such a plan."""

    def ends(self, record: HistoryRecord) -> bool:
        """Return whether a record ends such a plan."""
        return record.of in self._begun

    def begin_execution(self) -> None:
        """Forget plans of an earlier execution, whose events have the same numbers."""
        self._begun.clear()

    def begin(self, record: HistoryRecord, task: PlanTask) -> Iterator[Event]:
        """Begin a plan. The message belongs to the turn from its first plan on."""
        self._begun[record.id] = None if task.off_clock else record.time
        self.has_last = True
        if answering(self._fold.state.interim) != task.interim_for:
            self._fold.state = begin_interim(self._fold.state, task.interim_for)
            yield self._fold.event(record, TurnSteeredEvent, message_ids=[task.interim_for])
        yield self._fold.event(record, PlanStartedEvent, interim_for=task.interim_for)

    def end(self, record: HistoryRecord) -> Iterator[Event]:
        """End a plan. Without an answer the message is read by the turn's next plan."""
        began, self.has_last = self._begun.pop(record.of), True
        is_moving = record.error is not None and record.error.code == WRONG_WORKER
        is_canceled = record.kind == "failed" and record.error is None and not record.timeout
        if is_moving or is_canceled or not answering(self._fold.state.interim):
            return
        if began is not None:
            active = self._fold.state.active.added(record.time - began)
            self._fold.state = copy_with(self._fold.state, active=active)
        if record.kind == "completed":
            yield from self._apply(record)
        else:
            self._fold.state = fail_interim(self._fold.state)
        present = self._fold.state.interim[-1]
        message_id = present.sent.message_id
        if present.answer is not None:
            yield self._fold.event(record, AssistantMessageEvent, message=present.answer)
            yield self._fold.event(record, InterimAnswerEvent, message_id=message_id, message=present.answer)
        elif present.is_over:
            yield self._fold.event(
                record, InterimAnswerEvent, message_id=message_id, error=_error(record, present.fault)
            )

    def _apply(self, record: HistoryRecord) -> Iterator[Event]:
        value = record.value
        plan = value if isinstance(value, PlanOutcome) else unusable_plan("")
        if isinstance(value, PlanOutcome | Undecodable) and (fault := plan_fault(value, final_turn=True)):
            plan = unusable_plan(fault)
        before = self._fold.state.interim[-1].faults
        self._fold.state = apply_interim(self._fold.state, plan)
        for note in plan.notes:
            yield self._fold.event(record, PlannerNoteEvent, text=note)
        if self._fold.state.interim[-1].faults > before:
            text = f"planner fault: {self._fold.state.interim[-1].fault}"
            yield self._fold.event(record, PlannerNoteEvent, text=text)
        if plan.usage:
            yield self._fold.event(record, UsageEvent, usage=correct_usage(plan.usage))


def _error(record: HistoryRecord, fault: str) -> ToolError:
    if record.error is not None:
        return record.error
    if isinstance(record.value, PlanOutcome) and record.value.failure is not None:
        return record.value.failure
    why = f"no answer in time ({record.timeout})" if record.timeout else f"no valid answer: {fault}"
    return ToolError.new(why, code="PlannerError")

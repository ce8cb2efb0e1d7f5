"""Fold a run's history into its events: one pure function for streams, status, CLI and tests.

Every event is read from a recorded payload; the fold never decides. What the workflow derived
by a function of `sojourn.core` is derived here by the same function from the same record.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sojourn.contracts.dispatch import REPEATED
from sojourn.contracts.event import (
    AgentRunStartedEvent,
    AssistantMessageEvent,
    AwaitAnsweredEvent,
    Event,
    LimitReachedEvent,
    PlannerNoteEvent,
    PlanStartedEvent,
    PolicyDecisionEvent,
    RetriesStoppedEvent,
    RunCanceledEvent,
    RunCompletedEvent,
    RunFailedEvent,
    RunStartedEvent,
    RunStreamEndEvent,
    RunTerminatedEvent,
    RunTimedOutEvent,
    ToolStartEvent,
    UsageEvent,
)
from sojourn.contracts.message import Message
from sojourn.contracts.plan import Finalize
from sojourn.contracts.run import RunInput, RunOutput
from sojourn.contracts.run_link import RunLink
from sojourn.contracts.run_policy import RunPolicy
from sojourn.contracts.spent import Spent
from sojourn.contracts.tasks import PlanOutcome, PlanTask, ToolTask
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.awaits.opened import external_wait, input_wait, with_payload
from sojourn.core.history.fold_waits import WaitFold
from sojourn.core.history.record import HistoryRecord, OpenCall
from sojourn.core.payload.bounds import with_bounds
from sojourn.core.run import child_outcomes, outcomes
from sojourn.core.run.admission import not_executed
from sojourn.core.run.by_hand import no_plan, no_result, plan_fault, right_result, right_usage
from sojourn.core.run.limits import limits_of
from sojourn.core.run.spent import SPENT, read_told
from sojourn.core.safeguards.judge import RETRIES_STOPPED
from sojourn.core.values.unread import Unread

__all__ = ["END", "Fold", "HistoryRecord"]

END = "run_stream_end"
"""The last event of every stream."""

MAX_NOTE = 500
"""Characters of a note about what an operator did."""

_ENDS: dict[str, type[RunFailedEvent | RunCanceledEvent | RunTerminatedEvent | RunTimedOutEvent]] = {
    "run_failed": RunFailedEvent,
    "run_canceled": RunCanceledEvent,
    "run_terminated": RunTerminatedEvent,
    "run_timed_out": RunTimedOutEvent,
}


@dataclass(slots=True)
class Fold(WaitFold):
    """The state of the fold of one run; feed it history records in order."""

    policy: RunPolicy = field(default_factory=RunPolicy)
    _limit: Finalize | None = None
    _chain: int = 0
    """How often the run has been continued as new, or reset."""
    _open: dict[int, OpenCall] = field(default_factory=dict[int, OpenCall])
    _planned: dict[str, ToolRequest] = field(default_factory=dict[str, ToolRequest])
    _spent: dict[str, Spent] = field(default_factory=dict[str, Spent])
    """By child run: what one that is being cancelled says it has spent."""
    _bounded: set[str] = field(default_factory=set[str])

    def feed(self, record: HistoryRecord) -> list[Event]:
        """The events of one record, in order."""
        step: Callable[[HistoryRecord], Iterator[Event]] | None = getattr(self, f"_{record.kind}", None)
        made = list(step(record)) if step else []
        return [
            event.model_copy(update={"event_id": f"{self._chain}-{record.id:06d}-{k:05d}"})
            for k, event in enumerate(made)
        ]

    def _started(self, record: HistoryRecord) -> Iterator[Event]:
        if self._chain:
            return
        self.run = record.value if isinstance(record.value, RunInput) else None
        opening = self.run.messages if self.run else []
        first = next((m for m in reversed(opening) if m.role == "user"), None)
        yield self._event(record, RunStartedEvent, message=first)

    def _scheduled(self, record: HistoryRecord) -> Iterator[Event]:
        if isinstance(record.value, PlanTask):
            yield from self._given_up(record)
            self._open[record.id] = OpenCall(ToolRequest(name="plan"), record.time)
            if record.value.finalize and record.value.finalize != self._limit:
                self._limit = record.value.finalize
                stopped = self._limit.reason == RETRIES_STOPPED
                kind = RetriesStoppedEvent if stopped else LimitReachedEvent
                yield self._event(record, kind, limit=self._limit)
            yield self._event(record, PlanStartedEvent)
        elif isinstance(record.value, ToolTask):
            task = record.value
            call = ToolRequest(name=task.name, payload=task.payload, raw=task.raw, tool_call_id=record.key)
            self._unstarted.pop(call.tool_call_id, None)
            known = self._asking.pop(call.tool_call_id, None)
            begun = known[1] if known else record.time
            self._open[record.id] = OpenCall(
                call, begun, queue=record.queue, waits=record.waits, external=task.given is not None
            )
            if known is None:
                yield self._event(record, ToolStartEvent, call=call)

    def _completed(self, record: HistoryRecord) -> Iterator[Event]:
        opened = self._open.pop(record.of, None)
        given = record.value
        if isinstance(given, PlanOutcome):
            fault = plan_fault(given, final_turn=self._limit is not None)
            yield from self._planned_events(record, no_plan(fault) if fault else given)
        elif isinstance(given, Unread) and record.name == "PlanActivity":
            yield from self._planned_events(record, no_plan(given.reason))
        elif isinstance(given, ToolResult | Unread) and opened:
            unread = isinstance(given, Unread)
            result = no_result(opened.call, given.reason) if unread else right_result(given)
            yield from self._call_ended(
                record, opened, outcomes.attach_call(opened.call, result, self.run_id)
            )

    def _local_ended(self, record: HistoryRecord) -> Iterator[Event]:
        """A local activity leaves one marker: its id and how it ended."""
        opened = self._local.pop(record.key, None)
        if not opened:
            return
        if isinstance(record.value, ToolResult):
            result = outcomes.attach_call(opened.call, record.value, self.run_id)
        elif record.error and record.error.code == REPEATED:
            self._asking[record.key] = (opened.call, opened.since)  # it goes on as an ordinary activity
            return
        elif record.error:
            result = outcomes.failed(opened.call, record.error)
        else:
            result = self._cut_short(opened.call)
        yield from self._call_ended(record, opened, result)

    def _failed(self, record: HistoryRecord) -> Iterator[Event]:
        opened = self._open.pop(record.of, None)
        if not opened or not opened.call.tool_call_id:
            return
        if record.timeout:
            result = outcomes.timed_out(opened.call, record.timeout, opened.queue, opened.waits)
        elif record.error:
            result = outcomes.failed(opened.call, record.error)
        else:
            result = self._cut_short(opened.call)
        yield from self._call_ended(record, opened, result)

    def _call_ended(self, record: HistoryRecord, opened: OpenCall, result: ToolResult) -> Iterator[Event]:
        """A worker answered a call, asks for input to go on, or judged a result that was sent from outside."""
        call_id = opened.call.tool_call_id
        needed = result.input_required
        if needed and self.policy.interrupts_allowed and self._may_ask_again(call_id):
            asked = [input_wait(opened.call, needed, form) for form in needed.forms]
            self._asking[call_id] = (opened.call, opened.since)
            self._forms[call_id] = asked[1:]
            if opened.is_local:
                self._kinds[call_id] = "local"
            yield self._opened(record, asked[0])
            return
        if needed and self.policy.interrupts_allowed:
            result = outcomes.too_much_input(opened.call, needed.server)
        elif needed:
            result = outcomes.no_input(opened.call, needed.server)
        if opened.external:
            was_open = self._external in self._waits.open
            if not self._waits.checked(self._external, call_id, result):
                self._asking[call_id] = (opened.call, opened.since)
                said = result.error.message if result.error else ""
                yield self._event(record, PlannerNoteEvent, text=f"result refused: {said}")
                return
            yield from self._tool_end(record, result, opened.since)
            if was_open and self._external not in self._waits.open:
                yield self._event(record, AwaitAnsweredEvent, await_id=self._external, **self._supplier)
            return
        yield from self._tool_end(record, result, opened.since)

    def _cancel_requested(self, record: HistoryRecord) -> Iterator[Event]:
        self._reason = record.value
        return iter(())

    def _planned_events(self, record: HistoryRecord, plan: PlanOutcome) -> Iterator[Event]:
        self.policy = plan.policy or self.policy
        if (plan.overtime or self._overtime) and not (plan.final or plan.failure or self._limit):
            # It came too late to be carried out; what it used is used.
            plan = PlanOutcome(usage=plan.usage)
        if plan.decision:
            yield self._event(record, PolicyDecisionEvent, decision=plan.decision)
        for note in plan.notes:
            yield self._event(record, PlannerNoteEvent, text=note)
        if plan.fault:
            yield self._event(record, PlannerNoteEvent, text=f"planner fault: {plan.fault}")
        if plan.usage:
            yield self._event(record, UsageEvent, usage=right_usage(plan.usage))
        if plan.calls:
            yield self._event(
                record, AssistantMessageEvent, message=plan.message or Message.calls(plan.calls)
            )
            yield from self._answered_calls(record, plan)
        elif plan.final:
            yield self._event(record, AssistantMessageEvent, message=plan.final)
        elif plan.await_:
            if plan.message and plan.message.text:
                yield self._event(record, AssistantMessageEvent, message=plan.message)
            yield self._opened(record, plan.await_)

    def _answered_calls(self, record: HistoryRecord, plan: PlanOutcome) -> Iterator[Event]:
        """Start and end of the calls that need no activity, and what has to be asked first; the others end later."""
        limits = limits_of(self.policy)
        self._planned = {call.tool_call_id: call for call in plan.calls}
        planned = zip(plan.calls, plan.dispatches, strict=False)
        self._bounded = {call.tool_call_id for call, dispatch in planned if dispatch.bounded}
        outside = external_wait(list(zip(plan.calls, plan.dispatches, strict=False)), plan.external)
        if outside:
            yield self._opened(record, outside)
        for index, call in enumerate(plan.calls):
            dispatch = plan.dispatches[index] if index < len(plan.dispatches) else None
            if dispatch and dispatch.kind == "external":
                self._asking[call.tool_call_id] = (call, record.time)
                yield self._event(record, ToolStartEvent, call=call)
                continue
            if dispatch and dispatch.confirm and self._waits.asks(dispatch.confirm):
                event = self._opened(record, with_payload(dispatch.confirm, call))
                assert event.type == "await_confirmation"
                self._asking[event.confirmation.id] = (call, record.time)
                self._kinds[event.confirmation.id] = dispatch.kind
                yield event
                continue
            if dispatch and dispatch.kind == "local":
                self._local[call.tool_call_id] = OpenCall(call, record.time, is_local=True)
                yield self._event(record, ToolStartEvent, call=call)
                continue
            result = dispatch.result if dispatch else not_executed(call, plan.refused, limits)
            if result is None:
                self._unstarted[call.tool_call_id] = call
            else:
                yield self._event(record, ToolStartEvent, call=call)
                yield from self._tool_end(record, result, record.time)

    def _sent(self, record: HistoryRecord) -> Iterator[Event]:
        if record.name != SPENT:
            yield from super(Fold, self)._sent(record)  # of a dataclass with slots: it has no bare `super()`
            return
        run_id, spent = read_told(record.value)
        if spent and any(opened.link and opened.link.run_id == run_id for opened in self._open.values()):
            self._spent[run_id] = spent

    def _child_initiated(self, record: HistoryRecord) -> Iterator[Event]:
        call_id = record.name.rsplit("/", 1)[-1]
        call = self._planned.get(call_id, ToolRequest(name="", tool_call_id=call_id))
        self._unstarted.pop(call_id, None)
        agent_id = record.value.agent_id if isinstance(record.value, RunInput) else ""
        link = RunLink(
            run_id=record.name, agent_id=agent_id, parent_run_id=self.run_id, parent_tool_call_id=call_id
        )
        typed = isinstance(record.value, RunInput) and record.value.answer is not None
        bounded = call_id in self._bounded
        self._open[record.id] = OpenCall(call, record.time, link, typed=typed, bounded=bounded)
        yield self._event(record, ToolStartEvent, call=call)

    def _child_started(self, record: HistoryRecord) -> Iterator[Event]:
        opened = self._open.get(record.of)
        if opened:
            yield self._event(record, AgentRunStartedEvent, run_link=opened.link, call=opened.call)

    def _child_completed(self, record: HistoryRecord) -> Iterator[Event]:
        opened = self._open.pop(record.of, None)
        if not opened or not opened.link:
            return
        told = self._spent.pop(opened.link.run_id, None)
        if isinstance(record.value, RunOutput):
            result = child_outcomes.finished(opened.call, record.value, opened.link, typed=opened.typed)
            result = with_bounds(result) if opened.bounded else result
        elif record.error:
            spent = record.value if isinstance(record.value, Spent) else None
            result = child_outcomes.failed(opened.call, record.error, opened.link, spent)
        else:
            result = child_outcomes.with_spent(self._cut_short(opened.call), opened.link, told)
        yield from self._tool_end(record, result, opened.since)

    _child_failed = _child_completed

    def _run_completed(self, record: HistoryRecord) -> Iterator[Event]:
        for opened in self._open.values():
            if opened.call.tool_call_id:
                result = self._left_open(record, opened.call).model_copy(update={"run_link": opened.link})
                yield from self._tool_end(record, result, opened.since)
        yield from self._given_up(record)
        if record.kind == "run_completed":
            output = record.value if isinstance(record.value, RunOutput) else None
            yield self._event(record, RunCompletedEvent, output=output)
        else:
            error = record.error
            said: dict[str, Any] = {"text": str(error), "code": error.code} if error else {}
            if record.kind == "run_failed":
                said["error"] = error
            yield self._event(record, _ENDS[record.kind], **said)
        yield self._event(record, RunStreamEndEvent)

    _run_failed = _run_canceled = _run_terminated = _run_timed_out = _run_completed

    def _continued(self, _record: HistoryRecord) -> Iterator[Event]:
        """The run goes on in another execution, whose history follows."""
        self._chain += 1
        return iter(())

    def _reset(self, record: HistoryRecord) -> Iterator[Event]:
        """An operator took the run back to this point; what it did after it is told anew, under later ids."""
        self._chain += 1
        said = f": {record.value}" if record.value else ""
        yield self._event(
            record,
            PlannerNoteEvent,
            text=f"the run was reset to this point{said}"[:MAX_NOTE],
            identity=record.identity or None,
        )

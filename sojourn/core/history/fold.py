"""Fold a run's history into its events and its status."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

from sojourn.contracts.dispatch import REPEATED, WRONG_WORKER
from sojourn.contracts.event import (
    AgentRunStartedEvent,
    AssistantMessageEvent,
    ConversationBranchedEvent,
    Event,
    LimitReachedEvent,
    MemoryChangedEvent,
    PlannerNoteEvent,
    PlanStartedEvent,
    PolicyDecisionEvent,
    RetriesStoppedEvent,
    RunAdmittedEvent,
    RunCanceledEvent,
    RunCompletedEvent,
    RunContinuedEvent,
    RunFailedEvent,
    RunQueuedEvent,
    RunStartedEvent,
    RunStreamEndEvent,
    RunTerminatedEvent,
    RunTimedOutEvent,
    ToolStartEvent,
    TurnCompletedEvent,
    TurnFailedEvent,
    TurnStartedEvent,
    TurnSteeredEvent,
    UsageEvent,
)
from sojourn.contracts.ids import place_in
from sojourn.contracts.message import Message
from sojourn.contracts.plan import Finalize
from sojourn.contracts.quota import Admission
from sojourn.contracts.run import RunInput, RunOutput, RunStatus, Spent
from sojourn.contracts.tasks import ApproverTask, EditTask, PlanOutcome, PlanTask, ToolTask
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import RunLink, ToolResult, ToolTelemetry
from sojourn.contracts.wire_names import ADMIT, CHILD_SPENT, PLAN, READ_BRANCH
from sojourn.core.history.fold_interim import InterimFold
from sojourn.core.history.fold_step import StepFold, StepSoFar
from sojourn.core.history.fold_waits import WaitFold
from sojourn.core.history.record import FoldState, HistoryRecord, OpenCall
from sojourn.core.payload.boundary import state_bounds
from sojourn.core.run import child_runs, outcomes
from sojourn.core.run.continuation import Continuation
from sojourn.core.run.outcomes import (
    correct_result,
    correct_usage,
    plan_fault,
    unusable_plan,
    unusable_result,
)
from sojourn.core.run.state import RunState
from sojourn.core.run.status import status_of
from sojourn.core.run.totals import add_telemetry, add_totals, read_child_spent
from sojourn.core.run.turns import end_turn, interrupt_turn, join_turn, open_turn
from sojourn.core.safeguards.judge import RETRIES_STOPPED
from sojourn.values.frozen import copy_with
from sojourn.values.timers import ESCALATES, EXPIRES, TIME_BUDGET, WAITS
from sojourn.values.undecodable import Undecodable

__all__ = ["END", "Fold", "HistoryRecord"]

END = "run_stream_end"
"""The type of the last event of every stream."""

MAX_NOTE = 500
"""Longest note about an operator's action, in characters."""

_ENDS: dict[str, type[RunFailedEvent | RunCanceledEvent | RunTerminatedEvent | RunTimedOutEvent]] = {
    "run_failed": RunFailedEvent,
    "run_canceled": RunCanceledEvent,
    "run_terminated": RunTerminatedEvent,
    "run_timed_out": RunTimedOutEvent,
}


class Fold:
    """The fold of one run, which reads history records in order."""

    def __init__(self, run_id: str, chain: int | None = None) -> None:
        self._fold = FoldState(run_id)
        self._step = StepFold(self._fold)
        self._waits = WaitFold(self._fold, self._step)
        self._interim = InterimFold(self._fold)
        self._limit: Finalize | None = None
        """The limit that made the last plan the last, as its input says; a person may have lifted it since."""
        self._chain = 0
        """How often the run was continued as new, or reset."""
        self._archived = chain
        """The first value of `_chain`, if the events before are archived."""
        self._has_begun = False
        """Whether the first execution has started: those that continue it bring no state."""
        self._is_moving = False
        """Whether the last plan reached only workers without the run's agent, and is scheduled anew."""
        self._queued_at: datetime | None = None
        """Since when the run waits for a place in its tenant's quota, or None."""
        self._is_called = False
        """Whether a worker has told the run that it has got the place."""
        self._version = 0
        """The version of the code that began the run; 0 for code that told none."""
        self._sleep: PlanOutcome | None = None
        self._failure: str | None = None
        self._failure_code: str | None = None
        self._now: datetime | None = None
        self._began = datetime.min.replace(tzinfo=UTC)
        self._readers: dict[str, Callable[[HistoryRecord], Iterator[Event]]] = {
            "started": self._read_started,
            "scheduled": self._read_scheduled,
            "completed": self._read_completed,
            "failed": self._read_failed,
            "local_ended": self._read_local_ended,
            "checked": self._read_checked,
            "local_planned": self._read_local_planned,
            "child_initiated": self._read_child_initiated,
            "child_started": self._read_child_started,
            "child_completed": self._read_child_ended,
            "child_failed": self._read_child_ended,
            "sent": self._read_message,
            "timer_fired": self._read_timer_fired,
            "cancel_requested": self._read_cancel_requested,
            "continued": self._read_continued,
            "reset": self._read_reset,
            "turn_ended": self._read_turn_ended,
            "denied": self._waits.deny_approvals,
            "decided": self._waits.take_decision,
            "run_completed": self._read_run_ended,
            **dict.fromkeys(_ENDS, self._read_run_ended),
        }

    @property
    def run_id(self) -> str:
        return self._fold.run_id

    @property
    def moved_messages(self) -> tuple[Message, ...]:
        """The messages that last moved from the state into the transcript.

        The last plan, the end of the turn or the end of the run moved them.
        """
        return self._fold.moved_messages

    @property
    def chain(self) -> int:
        """The first number of the ids of the next events.

        It counts how often the run was continued as new, or reset.
        """
        return self._chain

    @property
    def state(self) -> RunState:
        return self._fold.state

    @property
    def is_beside_step(self) -> bool:
        """Whether the last record belongs to a plan beside a step.

        The plan answers a message while approvals are open. The transcript has nothing of it.
        """
        return self._interim.has_last

    def feed(self, record: HistoryRecord) -> list[Event]:
        self._now, self._interim.has_last = record.time, False
        return [
            event.model_copy(update={"event_id": self.place_of(record, k)})
            for k, event in enumerate(self._read(record))
        ]

    def _read(self, record: HistoryRecord) -> Iterator[Event]:
        for fired in record.due:
            yield from self._read_timer_fired(replace(fired, id=record.id))
        yield from self._readers.get(record.kind, _no_events)(record)

    def place_of(self, record: HistoryRecord, k: int = 0) -> str:
        """Return the id of the kth event of a record."""
        return place_in(self._chain, record.id, k)

    @property
    def waits_for(self) -> PlanOutcome | None:
        """The plan whose question or sleep the run waits for, or None if it does not wait."""
        is_asked = self.state.phase == "waiting" and self.state.waits.open
        return self._sleep or (self._waits.asked if is_asked else None)

    @property
    def step(self) -> StepSoFar:
        """The calls of the last plan with calls, and their answers so far."""
        return self._step.so_far

    def status(self) -> RunStatus:
        """Return the run's status after the records so far.

        It lacks the parts that only the server knows.
        """
        run = self._fold
        if self._now is None:
            return RunStatus(run_id=run.run_id)
        judging = [task.wait.id for task in self._waits.judging.values()]
        return status_of(run.state, run.run_id, self._now, judging).model_copy(
            update={"failure": self._failure, "failure_code": self._failure_code}
        )

    def totals(self) -> ToolTelemetry:
        """Return the tokens and the cost so far.

        They are those of the run's plans, and of calls and child runs whose step has ended.
        """
        counts = add_totals(self._fold.state.earlier, self._fold.state.totals)
        used = ToolTelemetry(
            **counts.usage.model_dump(exclude={"cached_tokens", "cache_write_tokens"}), attempts=0
        )
        return add_telemetry(counts.telemetry, used)

    def _read_started(self, record: HistoryRecord) -> Iterator[Event]:
        self._began = record.time
        is_branch = isinstance(record.value, Continuation) and record.value.branch is not None
        if not is_branch:
            yield from self._waits.stay(record)
        self._waits.is_branch_read = False
        self._interim.begin_execution()
        if isinstance(record.value, Continuation) and (branch := record.value.branch):
            self._take_over(record.value)
            state = self._fold.state
            yield self._fold.event(
                record,
                ConversationBranchedEvent,
                at=branch.at,
                message_id=branch.message_id,
                number=state.branches,
                memory=dict(state.memory),
            )
        if self._has_begun:
            return
        self._has_begun = True
        if isinstance(record.value, Continuation):  # the histories before it are gone, or are not needed
            self._take_over(record.value)
            if self._archived is not None:
                self._chain = self._archived
            elif self._chain:
                yield self._fold.event(record, RunContinuedEvent, executions=self._chain, is_start=True)
            elif self._fold.state.opening.forked_from:
                yield from self._begin_fork(record, record.value)
            return
        if isinstance(record.value, RunInput):
            self._fold.state = RunState.opened(record.value)
        opening = self._fold.state.opening.messages
        first = next((m for m in reversed(opening) if m.role == "user"), None)
        yield self._fold.event(record, RunStartedEvent, message=first)

    def _take_over(self, begins: Continuation) -> None:
        self._fold.state, self._chain = begins.state, begins.state.executions
        self._limit, waits_for = begins.state.limit, begins.waits_for
        if waits_for and waits_for.wait_:
            self._sleep = waits_for
        elif waits_for and waits_for.calls and begins.step:
            self._step.resume(waits_for, begins.step)
        elif waits_for and waits_for.await_:
            self._waits.asked = waits_for

    def _begin_fork(self, record: HistoryRecord, begins: Continuation) -> Iterator[Event]:
        state = self._fold.state
        added = next((m for m in reversed(state.new) if m.role == "user"), None)
        origin = state.opening.forked_from
        yield self._fold.event(record, RunStartedEvent, message=added, forked_from=origin)
        for sent in state.inbox.waiting:
            yield self._waits.received_event(record, sent)
        yield from self._waits.still_open(record)
        if begins.waits_for and begins.waits_for.calls:
            yield from self._carry_out_plan(record, begins.waits_for)

    # Plans and calls.

    def _read_scheduled(self, record: HistoryRecord) -> Iterator[Event]:
        task = record.value
        if isinstance(task, (ApproverTask, EditTask)):
            self._waits.judging[record.id] = task
        elif isinstance(task, PlanTask) and task.interim_for:
            yield from self._interim.begin(record, task)
        elif isinstance(task, PlanTask) and (self._is_moving or self.state.queued):
            yield from self._plan_again(record)
        elif isinstance(task, PlanTask):
            self._queued_at = None
            yield from self._step.give_up(record)
            self._end_sleep(record, is_over=False)
            self._step.open[record.id] = OpenCall(ToolRequest(name="plan"), record.time)
            yield from self._begin_turn(record)
            self._begin_plan(task)
            self._step.begin_work(record.time)
            known, self._limit = self._limit, task.finalize
            if task.finalize and task.finalize != known:
                stopped = task.finalize.reason == RETRIES_STOPPED
                kind = RetriesStoppedEvent if stopped else LimitReachedEvent
                yield self._fold.event(record, kind, limit=task.finalize)
            yield self._fold.event(record, PlanStartedEvent)
        elif isinstance(task, ToolTask):
            call = ToolRequest(name=task.name, payload=task.payload, raw=task.raw, tool_call_id=record.key)
            planned = self._step.planned.get(record.key)
            if planned is not None and planned.readings and planned.payload == call.payload:
                call = planned
            self._step.unstarted.pop(call.tool_call_id, None)
            known = self._step.asking.pop(call.tool_call_id, None)
            begun = known[1] if known else record.time
            self._step.open[record.id] = OpenCall(
                call, begun, queue=record.queue, waits=record.waits, external=task.given is not None
            )
            self._step.begin_work(record.time)
            if task.given is None:
                self._step.set_at_work(call.tool_call_id)
            if known is None:
                yield self._fold.event(record, ToolStartEvent, call=call)

    def _plan_again(self, record: HistoryRecord) -> Iterator[Event]:
        # The same plan reaches another worker, or has got a place.
        self._is_moving = False
        if self._is_called:
            yield from self._admit(record)
        self._fold.state = self.state.asking_again()
        self._step.open[record.id] = OpenCall(ToolRequest(name="plan"), record.time)
        self._step.begin_work(record.time)

    def _begin_turn(self, record: HistoryRecord) -> Iterator[Event]:
        # The run did the same before this plan.
        yield from self._waits.stay(record)
        state = self._fold.state
        if state.is_idle and state.inbox.waiting:
            state = self._fold.state = open_turn(state)
            self._limit = None
            yield self._fold.event(record, TurnStartedEvent, message_ids=list(state.taken))
        before_step = isinstance(record.value, PlanTask) and record.value.forked is not None
        self._fold.state, joined = join_turn(state, before_step=before_step)
        if joined:
            yield self._fold.event(record, TurnSteeredEvent, message_ids=joined)

    def _read_turn_ended(self, record: HistoryRecord) -> Iterator[Event]:
        # A turn that a plan answered has ended with that plan.
        output, error = record.value, record.error
        yield from self._begin_unrecorded_turn(record)
        self._fold.moved_messages = ()
        if self._fold.state.is_idle and record.key == self._fold.state.turn_id:
            return
        if self._fold.state.interrupted is not None:
            yield from self._step.give_up(record)
            self._cut_sleep(record)
            yield from self._say_partial(record)
        if isinstance(output, RunOutput):
            self._fold.moved_messages = self._fold.state.new
            yield self._fold.event(record, AssistantMessageEvent, message=output.final)
            yield self._complete_turn(record, output)
        elif error is not None:
            ids = list(self._fold.state.taken)
            yield self._fold.event(record, TurnFailedEvent, error=error, message_ids=ids)
            self._fold.state = end_turn(self._fold.state, error)

    def _say_partial(self, record: HistoryRecord) -> Iterator[Event]:
        if self._fold.state.partial.strip():
            message = Message.assistant(self._fold.state.partial)
            yield self._fold.event(record, AssistantMessageEvent, message=message, is_partial=True)

    def _begin_unrecorded_turn(self, record: HistoryRecord) -> Iterator[Event]:
        # The history does not show that plan.
        state = self._fold.state
        new = [each for each in record.message_ids if each not in state.taken]
        if not new:
            return
        yield from self._waits.stay(record)
        state = self._fold.state
        if state.is_idle:
            state, self._limit = open_turn(state, new), None
            kind: type[TurnStartedEvent | TurnSteeredEvent] = TurnStartedEvent
        else:
            state, kind = join_turn(state, new)[0], TurnSteeredEvent
        self._fold.state = interrupt_turn(state.planning(), "")
        yield self._fold.event(record, kind, message_ids=new)

    def _complete_turn(self, record: HistoryRecord, output: RunOutput) -> Event:
        ids = list(self._fold.state.taken)
        event = self._fold.event(record, TurnCompletedEvent, output=output, message_ids=ids)
        self._fold.state = end_turn(self._fold.state)
        return event

    def _begin_plan(self, task: PlanTask) -> None:
        # If the state differs from the record, the record wins.
        is_stopped = task.finalize is not None and task.finalize.reason == RETRIES_STOPPED
        self._version = task.version or self._version
        self._step.judge(is_stopped=is_stopped, from_first=not self._version)
        state = self._fold.state.planning()
        if (task.finalize and task.finalize.reason) != (state.limit and state.limit.reason):
            state = state.limited(task.finalize)
        phase = "finalizing" if task.finalize else "planning"
        self._fold.moved_messages = (*state.new, *state.resume_messages)
        taint = state.taint if task.taint is None else task.taint
        state = copy_with(state, limit=task.finalize, phase=phase, taint=taint)
        self._fold.state = state.plan_begun(task.after)

    def _read_completed(self, record: HistoryRecord) -> Iterator[Event]:
        if self._interim.ends(record):
            yield from self._interim.end(record)
            return
        opened = self._step.open.pop(record.of, None)
        if record.name == READ_BRANCH:
            self._waits.is_branch_read = self._fold.state.branching is not None
            return
        if opened is None:
            yield from self._waits.take_verdict(record)
            return
        self._step.end_work(record.time)
        value = record.value
        if isinstance(value, PlanOutcome) and value.quota and not value.is_made:
            yield from self._queue(record, value.quota)
        elif isinstance(value, PlanOutcome):
            if value.quota:
                yield from self._admit(record)
            fault = plan_fault(value, final_turn=self._fold.state.limit is not None)
            yield from self._apply_plan(record, unusable_plan(fault) if fault else value)
        elif isinstance(value, Undecodable) and record.name == PLAN:
            yield from self._apply_plan(record, unusable_plan(value.reason))
        elif isinstance(value, ToolResult | Undecodable):
            unread = isinstance(value, Undecodable)
            result = unusable_result(opened.call, value.reason) if unread else correct_result(value)
            attached = outcomes.attach_call(opened.call, result, self._fold.run_id)
            yield from self._step.apply_result(record, opened, attached)

    def _queue(self, record: HistoryRecord, asked: Admission) -> Iterator[Event]:
        self._fold.state = self.state.queued_by(asked)
        if self._queued_at is None:
            self._queued_at = record.time
            yield self._fold.event(record, RunQueuedEvent, quota=asked)

    def _admit(self, record: HistoryRecord) -> Iterator[Event]:
        since, self._queued_at, self._is_called = self._queued_at, None, False
        if since is not None:
            yield self._fold.event(record, RunAdmittedEvent, waited=record.time - since)

    def _read_local_ended(self, record: HistoryRecord) -> Iterator[Event]:
        opened = self._step.local.pop(record.key, None)
        if not opened:
            return
        self._step.end_work(record.time)
        self._step.set_at_work(opened.call.tool_call_id)
        if isinstance(record.value, ToolResult):
            result = outcomes.attach_call(opened.call, record.value, self._fold.run_id)
        elif record.error and record.error.code in (REPEATED, WRONG_WORKER):
            self._step.asking[record.key] = (
                opened.call,
                opened.since,
            )  # the call continues as an ordinary activity
            return
        elif record.error:
            result = self._step.fail_attempt(opened.call, record.error, record.value)
        else:
            result = self._step.cut_short(opened.call)
        yield from self._step.apply_result(record, opened, result)

    def _read_checked(self, record: HistoryRecord) -> Iterator[Event]:
        if isinstance(record.value, ToolResult):
            yield from self._step.apply_approval_check(record, record.key, record.value)

    def _read_local_planned(self, record: HistoryRecord) -> Iterator[Event]:
        if isinstance(record.value, PlanOutcome) and record.value.task:
            yield from self._read_scheduled(replace(record, kind="scheduled", value=record.value.task))
            yield from self._read_completed(record)

    def _read_failed(self, record: HistoryRecord) -> Iterator[Event]:
        if self._interim.ends(record):
            yield from self._interim.end(record)
            return
        opened = self._step.open.pop(record.of, None)
        if record.name == READ_BRANCH:
            yield from self._waits.drop_branch(record)
            return
        if not opened:
            yield from self._waits.take_verdict(record)
            return
        self._step.end_work(record.time)
        is_moving = record.error is not None and record.error.code == WRONG_WORKER
        if not opened.call.tool_call_id:
            self._is_moving = is_moving
            details: Any = record.value
            if isinstance(details, list):
                self._fold.state = self._fold.state.plan_canceled(cast("list[Any]", details))
            return
        if is_moving:
            self._step.asking[opened.call.tool_call_id] = (opened.call, opened.since)
            return
        if record.timeout:
            result = outcomes.timeout_result(opened.call, record.timeout, opened.queue, opened.waits)
        elif record.error:
            result = self._step.fail_attempt(opened.call, record.error, record.value)
        else:
            result = self._step.cut_short(opened.call)
        yield from self._step.apply_result(record, opened, result)

    def _apply_plan(self, record: HistoryRecord, plan: PlanOutcome) -> Iterator[Event]:
        usage = plan.usage and correct_usage(plan.usage)
        state = self._fold.state.planned(plan.model_copy(update={"usage": usage}), record.time)
        if (plan.overtime or state.active.expired) and not (plan.final or plan.failure or state.limit):
            # The plan came too late to be carried out, but its usage counts.
            plan, state = PlanOutcome(usage=plan.usage), state.out_of_time()
        self._fold.state = state if plan.fault is None else state.plan_refused(plan)
        if plan.decision:
            yield self._fold.event(record, PolicyDecisionEvent, decision=plan.decision)
        for note in plan.notes:
            yield self._fold.event(record, PlannerNoteEvent, text=note)
        if plan.fault is not None:
            yield self._fold.event(record, PlannerNoteEvent, text=f"planner fault: {plan.fault}")
        if usage:
            yield self._fold.event(record, UsageEvent, usage=usage)
        if plan.fault is None:
            yield from self._apply_memory(record, plan)
            yield from self._carry_out_plan(record, plan)

    def _apply_memory(self, record: HistoryRecord, plan: PlanOutcome) -> Iterator[Event]:
        before = self._fold.state.memory
        self._fold.state = self._fold.state.remembering(plan)
        if self._fold.state.memory is not before:
            yield self._fold.event(record, MemoryChangedEvent, patch=plan.memory)

    def _carry_out_plan(self, record: HistoryRecord, plan: PlanOutcome) -> Iterator[Event]:
        if plan.calls:
            message = plan.message or Message.calls(plan.calls)
            yield self._fold.event(record, AssistantMessageEvent, message=message)
            yield from self._step.begin(record, plan)
        elif plan.final:
            self._fold.state = self._fold.state.finished()
            yield self._fold.event(record, AssistantMessageEvent, message=plan.final)
            if self._fold.state.opening.conversation:
                output = self._fold.state.output(plan, self._fold.run_id, record.time)
                yield self._complete_turn(record, output)
        elif plan.await_:
            if plan.message and plan.message.text:
                yield self._fold.event(record, AssistantMessageEvent, message=plan.message)
            yield from self._waits.ask(record, plan)
        elif plan.wait_ and self._fold.state.interrupted is None:
            self._sleep, self._fold.state = plan, self._fold.state.waiting()
            if plan.wait_counts:
                self._step.begin_work(record.time)

    def _cut_sleep(self, record: HistoryRecord) -> None:
        plan, self._sleep = self._sleep, None
        if plan and plan.wait_counts:
            self._step.end_work(record.time)

    def _end_sleep(self, record: HistoryRecord, *, is_over: bool) -> None:
        plan, self._sleep = self._sleep, None
        if plan is None or plan.wait_ is None:
            return
        if plan.wait_counts:
            self._step.end_work(record.time)
        self._fold.state = self._fold.state.slept(plan.wait_, record.time, is_over=is_over)

    # Child runs.

    def _read_child_initiated(self, record: HistoryRecord) -> Iterator[Event]:
        call_id = record.name.rsplit("/", 1)[-1]
        call = self._step.planned.get(call_id, ToolRequest(name="", tool_call_id=call_id))
        self._step.unstarted.pop(call_id, None)
        child = record.value if isinstance(record.value, RunInput) else None
        link = RunLink(
            run_id=record.name,
            agent_id=child.agent_id if child else "",
            parent_run_id=self._fold.run_id,
            parent_tool_call_id=call_id,
        )
        typed = child is not None and child.answer is not None
        bounded = call_id in self._step.bounded
        self._step.begin_child(record, call, OpenCall(call, record.time, link, typed=typed, bounded=bounded))
        yield self._fold.event(record, ToolStartEvent, call=call)

    def _read_child_started(self, record: HistoryRecord) -> Iterator[Event]:
        opened = self._step.open.get(record.of)
        if opened:
            yield self._fold.event(record, AgentRunStartedEvent, run_link=opened.link, call=opened.call)

    def _read_child_ended(self, record: HistoryRecord) -> Iterator[Event]:
        opened = self._step.open.pop(record.of, None)
        if not opened or not opened.link:
            return
        reported = self._step.spent.pop(opened.link.run_id, None)
        may_act = self._step.may_act(opened.call.tool_call_id)
        if isinstance(record.value, RunOutput):
            active = record.value.active_time
            self._fold.state = self._fold.state.asked_below(record.value)
            result = child_runs.result_of_output(
                opened.call, record.value, opened.link, typed=opened.typed, may_act=may_act
            )
            result = state_bounds(result) if opened.bounded else result
        elif record.error:
            spent = record.value if isinstance(record.value, Spent) else None
            active = spent and spent.active_time
            self._fold.state = self._fold.state.asked_below(spent)
            result = child_runs.result_of_failure(
                opened.call, record.error, opened.link, spent, may_act=may_act
            )
        else:
            active = reported and reported.active_time
            self._fold.state = self._fold.state.asked_below(reported)
            if reported and reported.may_have_acted is False:
                self._step.set_at_work(opened.call.tool_call_id, at_work=False)
            result = child_runs.add_spent(self._step.cut_short(opened.call), opened.link, reported)
        self._step.end_child(opened, active)
        yield from self._step.answer(record, result, opened.since)

    # Records of messages from outside.

    def _read_message(self, record: HistoryRecord) -> Iterator[Event]:
        self._is_called |= record.name == ADMIT
        if record.name != CHILD_SPENT:
            yield from self._waits.read_message(record)
            return
        run_id, spent = read_child_spent(record.value)
        links = [opened.link for opened in self._step.open.values()]
        if spent and any(link and link.run_id == run_id for link in links):
            self._step.spent[run_id] = spent

    def _read_timer_fired(self, record: HistoryRecord) -> Iterator[Event]:
        if record.name == TIME_BUDGET:
            active = copy_with(self._fold.state.active, expired=True)
            self._fold.state = copy_with(self._fold.state, active=active)
            self._step.cut_waiting(record)
        elif record.name == WAITS:
            self._end_sleep(record, is_over=True)
        elif record.name.startswith(EXPIRES):
            yield from self._waits.expire(record)
        elif record.name.startswith(ESCALATES):
            yield from self._waits.escalate(record)

    def _read_cancel_requested(self, record: HistoryRecord) -> Iterator[Event]:
        self._step.is_canceling, self._step.reason = True, record.value
        self._step.cut_waiting(record)
        return iter(())

    # The end.

    def _read_run_ended(self, record: HistoryRecord) -> Iterator[Event]:
        if record.kind == "run_completed":
            yield from self._waits.stay(record)
        for opened in self._step.open.values():
            if opened.call.tool_call_id:
                answer = self._step.answer_left_open(record, opened.call)
                result = answer.model_copy(update={"run_link": opened.link})
                yield from self._step.answer(record, result, opened.since)
        yield from self._step.give_up(record)
        self._waits.judging.clear()
        if record.kind == "run_canceled":
            yield from self._say_partial(record)
        if record.kind == "run_completed":
            self._fold.moved_messages, self._fold.state = self._fold.state.new, self._fold.state.finished()
        self._fold.state = self._fold.state.ended()
        if record.kind == "run_completed":
            output = record.value if isinstance(record.value, RunOutput) else None
            yield self._fold.event(record, RunCompletedEvent, output=output)
        else:
            error = record.error
            self._failure = str(error) if error else ""
            self._failure_code = error.code if error else None
            fields: dict[str, Any] = {"text": str(error), "code": error.code} if error else {}
            if record.kind == "run_failed":
                fields["error"] = error
            yield self._fold.event(record, _ENDS[record.kind], **fields)
        yield self._fold.event(record, RunStreamEndEvent)

    def _read_continued(self, record: HistoryRecord) -> Iterator[Event]:
        yield self._fold.event(record, RunContinuedEvent, executions=self._fold.state.executions + 1)
        self._fold.state = self._fold.state.continued(self._began)
        self._chain += 1

    def _read_reset(self, record: HistoryRecord) -> Iterator[Event]:
        # Later events get new ids.
        self._chain += 1
        reason = f": {record.value}" if record.value else ""
        yield self._fold.event(
            record,
            PlannerNoteEvent,
            text=f"the run was reset to this point{reason}"[:MAX_NOTE],
            identity=record.identity or None,
        )


def _no_events(_record: HistoryRecord) -> Iterator[Event]:
    """No events, for a kind that only a later version records."""
    return iter(())

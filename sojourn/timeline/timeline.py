"""Fold the events of one run into entries, and find the changes since a version.

A child run appears as the call that started it, and has its own timeline. A timeline keeps its newest
entries. The history has the older ones.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, ClassVar, TypeVar

from sojourn.contracts import event as events
from sojourn.contracts.awaits import Await, AwaitConfirmation, AwaitExternalTools
from sojourn.contracts.event import Event, wait_in
from sojourn.contracts.ids import place_of
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.payload.memory import memory_after
from sojourn.timeline.draft import Attempt, DeltaEvent, Draft
from sojourn.timeline.entries import (
    Call,
    Delivery,
    End,
    EntryChange,
    Note,
    OpenWait,
    Plan,
    RunEnd,
    TurnEnd,
    UserMessage,
    UserTurn,
    WaitEnd,
    WaitEntry,
)
from sojourn.timeline.state import TimelineState

__all__ = ["Timeline"]

MOST_WAITS = 10_000
"""Most open waits, the newest ones."""

MAX_ATTEMPTS = 20
"""Most attempts of a call or a plan, the newest ones."""

_OUTSIDE_TURNS = (
    events.ConversationBranchedEvent,
    events.MessageReceivedEvent,
    events.MessageWithdrawnEvent,
    events.TurnStartedEvent,
)
_OF_CONVERSATION = (
    *_OUTSIDE_TURNS,
    events.TurnSteeredEvent,
    events.InterimAnswerEvent,
    events.TurnCompletedEvent,
    events.TurnFailedEvent,
)

K = TypeVar("K")
V = TypeVar("V")


class Timeline(TimelineState):
    """Grows with the events of a run."""

    def feed(self, event: Event, cursor: str = "") -> Sequence[EntryChange]:
        """Take the next event, and return its changes, in order."""
        if event.run_id != self.run_id or self._has(event):
            return ()
        self._changes = []
        self._before, self.cursor = self.cursor, cursor or event.event_id or self.cursor
        self.begun_at = self.begun_at or event.time
        self.version += 1
        self.agent_id = event.agent_id or self.agent_id
        if event.event_id:
            self.last_event_id = event.event_id
        self.is_conversation = self.is_conversation or isinstance(event, _OF_CONVERSATION)
        if (turn := self._turn(event)) and event.turn_id and not isinstance(event, _OUTSIDE_TURNS):
            turn.ids.add(event.turn_id)
        if wait := wait_in(event):
            self._open(event, wait)
        elif isinstance(event, events.MessageReceivedEvent):
            self._accept(event)
        elif take := self._TAKES.get(type(event)):
            take(self, event)
        return self._changes

    def _has(self, event: Event) -> bool:
        return bool(event.event_id and place_of(event.event_id) <= place_of(self.last_event_id))

    def _note(self, event: Event) -> None:
        turn = self._turn(event) or (self.turns[-1] if self.turns else None)
        self._add(Note(key=f"e-{event.event_id}", **_place(event), event=event), turn)

    # Messages and turns.

    def _start(self, event: events.RunStartedEvent) -> None:
        self.started, self.head = event, event.event_id
        if event.forked_from:
            self._note(event)
        if event.message:
            self.last_user_text = event.message.text
            self._add(UserMessage(key=f"said-{event.event_id}", **_place(event), message=event.message), None)

    def _accept(self, event: events.MessageReceivedEvent) -> None:
        entry = UserMessage(
            key=f"e-{event.event_id}",
            event_id=event.event_id,
            at=event.time,
            message=event.message,
            message_id=event.message_id,
            mode=event.mode,
            by=event.by or (event.principal.subject if event.principal else ""),
            identity=event.identity or "",
            event=event,
            is_in_turn=False,
            is_behind=self.turn is not None or bool(self.queued),
        )
        self.queued[event.message_id] = entry
        self.taken.pop(event.message_id, None)  # it was edited
        self.delivered.pop(event.message_id, None)
        self._deliver(event.message_id, Delivery(event, self._before, self.cursor))
        self._add(entry, None)

    def _branch(self, event: events.ConversationBranchedEvent) -> None:
        self.head, self.branches, self.branched_in = event.at, event.number, self.version
        self.memory, self.last_assistant_text = event.memory, ""
        self._calls.clear()  # another branch may use the same ids
        self._plan_of.clear()
        self._failed.clear()
        self._note(event)

    def _withdraw(self, event: events.MessageWithdrawnEvent) -> None:
        self.queued.pop(event.message_id, None)
        self._note(event)

    def _deliver(self, message_id: str, delivery: Delivery) -> None:
        self.delivered.setdefault(message_id, delivery)
        _trim(self.delivered, self._most_records)

    def _start_turn(self, event: events.TurnStartedEvent) -> None:
        self._end_plan(event.time)
        turn = UserTurn(event.event_id, event.turn_id, event.time, self._before, born=self.version)
        turn.version = self.version
        turn.ids.add(event.turn_id)
        turn.follows = self.head
        self.turns.append(turn)
        turn.messages = self._take(turn, event)
        known = {message.message_id for message in turn.messages}
        turn.missing = [each for each in event.message_ids if each not in known]
        turn.has_start = not turn.missing

    def _steer(self, event: events.TurnSteeredEvent) -> None:
        if turn := self._turn_at_work(event):
            self._take(turn, event)

    def _answer_message(self, event: events.InterimAnswerEvent) -> None:
        """Take the answer to a message of a turn that goes on, or that there is none."""
        self._end_plan(event.time)
        self._note(event)

    def _take(
        self, turn: UserTurn, event: events.TurnStartedEvent | events.TurnSteeredEvent
    ) -> list[UserMessage]:
        taken: list[UserMessage] = []
        for message_id in event.message_ids:
            message = self.queued.pop(message_id, None)
            self.taken[message_id] = event.turn_id
            self.last_user_text = message and message.message.text
            if message is not None:
                message.is_in_turn, message.turn_id = True, event.turn_id
                self._join(turn, message)
                self._touch(message, "taken")
                taken.append(message)
        _trim(self.taken, self._most_records)
        return taken

    def _end_turn(self, event: TurnEnd) -> None:
        self._end_plan(event.time)
        turn = self._turn_at_work(event)
        end = self._end(event, turn)
        self.head = event.event_id
        if turn is None:
            return
        turn.end, turn.is_over = end, True
        for entry in turn.entries:
            if isinstance(entry, Call) and entry.result is None and entry.child is None:
                entry.state = "not_executed"
                self._touch(entry)
        self._close_waits(event.time)

    def _end(self, event: RunEnd | TurnEnd, turn: UserTurn | None) -> End:
        end = End(key=f"e-{event.event_id}", **_place(event), event=event)
        if self._plan is not None and end.output is not None and self._plan.text == end.output.text:
            self._plan.is_answer = True
            self._touch(self._plan)
        self._add(end, turn)
        return end

    def _end_run(self, event: RunEnd) -> None:
        self._end_plan(event.time)
        turn = self.turn
        self.end = self._end(event, turn)
        self._close_waits(event.time)
        if turn is not None:
            turn.is_over, turn.version = True, self.version

    def _end_stream(self, event: events.RunStreamEndEvent) -> None:
        self._close_waits(event.time)
        self.is_over = True

    # Plans.

    def _start_plan(self, event: Event) -> Plan:
        self._end_plan(event.time)
        self._plans += 1
        self._plan = Plan(key=f"e-{event.event_id}", **_place(event), number=self._plans)
        if isinstance(event, events.PlanStartedEvent):
            self._plan.interim_for = event.interim_for
        self._add(self._plan, self._turn_at_work(event))
        return self._plan

    def _say(self, event: events.AssistantMessageEvent) -> None:
        plan = self._plan if self._plan is not None and self._plan.message is None else None
        plan = plan or self._start_plan(event)
        plan.message, plan.message_event_id = event.message, event.event_id
        plan.is_partial = event.is_partial
        for part in event.message.tool_calls:
            self._plan_of[part.tool_call_id] = plan
        self._touch(plan, "spoken")
        self._end_plan(event.time)
        self.last_assistant_text = event.message.text or self.last_assistant_text

    def _use(self, event: events.UsageEvent) -> None:
        if self._plan is not None:
            self._plan.usage = event.usage
            self._touch(self._plan)
        self._spend(event.usage, event)
        if (turn := self.turn) is not None:
            turn.model = event.usage.model or turn.model

    def _spend(self, used: Any, event: Event) -> None:
        self.spent = self.spent.plus(used)
        if (turn := self.turn) is not None and event.run_id == self.run_id:
            turn.spent, turn.version = turn.spent.plus(used), self.version

    def _write(self, event: DeltaEvent) -> None:
        plan = self._plan
        if plan is None or not plan.is_open:
            return
        plan.draft.take(event)
        self._touch(plan)

    def _restart_draft(self, _: events.StreamRestartedEvent) -> None:
        if self._plan is not None and self._plan.is_open:
            self._plan.draft = Draft()
            self._touch(self._plan)

    def _end_plan(self, at: datetime) -> None:
        if self._plan is not None and self._plan.is_open:
            self._plan.ended_at, self._plan.draft, self._plan.progress = at, Draft(), ""
            self._touch(self._plan)

    # Calls.

    def _start_call(self, event: events.ToolStartEvent | events.AgentRunStartedEvent) -> None:
        call = self._call(event, event.call)
        if isinstance(event, events.AgentRunStartedEvent):
            call.child = event.run_link
        else:
            call.started_at = call.started_at or event.time
            call.start_event_id = call.start_event_id or event.event_id
            if turn := self._turn(event):
                turn.calls += 1
        if call.state == "waiting" and not call.is_waiting:
            call.state = "running"
        self._touch(call, "child_started" if isinstance(event, events.AgentRunStartedEvent) else "started")

    def _end_call(self, event: events.ToolEndEvent | events.ToolResultReceivedEvent) -> None:
        result = event.result
        call = self._call(event, ToolRequest(name=result.name, tool_call_id=result.tool_call_id))
        call.result, call.state = result, _state_of(result)
        call.child = result.run_link or call.child
        call.ended_at = call.ended_at or event.time
        if isinstance(event, events.ToolEndEvent):
            call.end_event_id, call.duration = event.event_id, event.duration
            self._spend(result.telemetry, event)
        call.progress, call.done, call.total = "", None, None
        if result.error and result.retry_hint:
            self._failed[call.call.name] = call
            _trim(self._failed, self._most)
        self._touch(call, "ended" if isinstance(event, events.ToolEndEvent) else "resolved")

    def _call(self, event: Event, request: ToolRequest) -> Call:
        known = self._calls.get(request.tool_call_id)
        if known is not None:
            if request.readings or not (known.call.payload or known.call.raw):
                known.call = request
            return known
        self._end_plan(event.time)
        branch = f"{self.branches}-" if self.branches else ""
        call = Call(key=f"call-{branch}{request.tool_call_id}", **_place(event), call=request)
        if before := self._failed.pop(request.name, None):
            before.repaired_by, call.repairs = request.tool_call_id, before.id
            self._touch(before)
        self._calls[request.tool_call_id] = call
        if self._plan is not None:
            self._plan.calls.append(request.tool_call_id)
            self._touch(self._plan)
        self._add(call, self._turn_at_work(event))
        return call

    def _retry(self, event: events.ToolRetryEvent) -> None:
        entry = self._calls.get(event.tool_call_id) if event.tool_call_id else self._plan
        if entry is None:
            return
        attempt = Attempt(event.attempt, event.error, event.due)
        others = [each for each in entry.attempts if each.number != event.attempt]
        entry.attempts = [*others, attempt][-MAX_ATTEMPTS:]
        entry.progress, entry.done, entry.total = "", None, None
        if isinstance(entry, Plan) and entry.is_open:
            entry.draft.retry = attempt
        self._touch(entry, "retried")

    def _progress(self, event: events.ToolUpdateEvent) -> None:
        entry = self._calls.get(event.tool_call_id) if event.tool_call_id else self._plan
        if entry is not None:
            entry.progress, entry.done, entry.total = event.note, event.done, event.total
            self._touch(entry, "progressed")

    # Waits.

    def _open(self, event: Event, wait: Await) -> None:
        opened = OpenWait(self.run_id, wait, event.time, event.event_id, self._before, self.cursor)
        if isinstance(wait, AwaitConfirmation):
            request = ToolRequest(name=wait.tool, payload=wait.payload, tool_call_id=wait.tool_call_id)
            entry = self._call(event, request)
            entry.opened, entry.state = opened, "waiting"
            entry.decision = entry.closed_at = None
        else:
            self._end_plan(event.time)
            entry = WaitEntry(key=f"e-{event.event_id}", **_place(event), opened=opened)
            self._add(entry, self._turn_at_work(event))
        if isinstance(wait, AwaitExternalTools):
            for call in filter(None, (self._calls.get(each.tool_call_id) for each in wait.items)):
                call.state = "waiting"
                self._touch(call)
        self._touch(entry, "asked")
        self.open_waits.pop(wait.id, None)  # a wait that is opened again is the newest one
        self._waiting.pop(wait.id, None)
        self.open_waits[wait.id], self._waiting[wait.id] = opened, entry
        _trim(self.open_waits, MOST_WAITS)
        _trim(self._waiting, MOST_WAITS)

    def _count_approval(self, event: events.ApprovalGivenEvent) -> None:
        """Take one of several approvals, after which the call waits on."""
        self._deliver_answer(event, self.open_waits.get(event.await_id))
        self._wait_on(event, event.edited_arguments)

    def _wait_on(
        self,
        event: events.ApprovalGivenEvent | events.ApprovalEscalatedEvent,
        edited: dict[str, Any] | None = None,
    ) -> None:
        """Take a change of an open approval."""
        opened, entry = self.open_waits.get(event.await_id), self._waiting.get(event.await_id)
        if opened is None or not isinstance(entry, Call):
            self._note(event)
            return
        asked = opened.asked
        if edited is not None:
            asked = entry.call.payload if asked is None else asked
            entry.call = entry.call.edited(edited)
        entry.opened = self.open_waits[event.await_id] = replace(opened, wait=event.confirmation, asked=asked)
        self._touch(entry)

    def _deliver_answer(
        self, event: events.ApprovalGivenEvent | events.AwaitAnsweredEvent, opened: OpenWait | None
    ) -> None:
        if event.message_id:
            after = opened.after if opened else self.cursor
            self._deliver(event.message_id, Delivery(event, after, self.cursor, opened))

    def _answer(self, event: events.AwaitAnsweredEvent) -> None:
        opened, entry = self.open_waits.pop(event.await_id, None), self._waiting.pop(event.await_id, None)
        decision = WaitEnd(event, opened)
        self.decisions.append(decision)
        self._deliver_answer(event, opened)
        if entry is None:  # the wait was opened before the first event of this timeline
            self._note(event)
            return
        entry.decision = decision
        if isinstance(entry, Call) and entry.state == "waiting":
            entry.state = "running" if event.approved else "denied"
        if isinstance(entry, Call) and event.edited_arguments is not None:
            entry.call = entry.call.edited(event.edited_arguments)
        self._touch(entry, "answered")

    def _close_waits(self, at: datetime) -> None:
        for entry in self._waiting.values():
            entry.closed_at = at
            self._touch(entry)
        self.open_waits.clear()
        self._waiting.clear()

    # Notes.

    def _pause(self, event: events.RunPausedEvent) -> None:
        self.is_paused = True
        self._note(event)

    def _resume(self, event: events.RunResumedEvent) -> None:
        self.is_paused = False
        self._note(event)
        if event.messages:
            self.last_user_text = event.messages[-1]

    def _remember(self, event: events.MemoryChangedEvent) -> None:
        self.memory = memory_after(self.memory, event.patch)
        self._note(event)

    _TAKES: ClassVar[Mapping[type[Any], Callable[[Any, Any], object]]] = {
        events.AgentRunStartedEvent: _start_call,
        events.ApprovalEscalatedEvent: _wait_on,
        events.ApprovalGivenEvent: _count_approval,
        events.AssistantMessageEvent: _say,
        events.AwaitAnsweredEvent: _answer,
        events.ConversationBranchedEvent: _branch,
        events.LimitReachedEvent: _note,
        events.MemoryChangedEvent: _remember,
        events.MessageWithdrawnEvent: _withdraw,
        events.PlanStartedEvent: _start_plan,
        events.PlannerNoteEvent: _note,
        events.PolicyDecisionEvent: _note,
        events.RetriesStoppedEvent: _note,
        events.RunAdmittedEvent: _note,
        events.RunCanceledEvent: _end_run,
        events.RunCompletedEvent: _end_run,
        events.RunContinuedEvent: _note,
        events.RunFailedEvent: _end_run,
        events.RunPausedEvent: _pause,
        events.RunQueuedEvent: _note,
        events.RunResumedEvent: _resume,
        events.RunStartedEvent: _start,
        events.RunStreamEndEvent: _end_stream,
        events.RunTerminatedEvent: _end_run,
        events.RunTimedOutEvent: _end_run,
        events.StreamRestartedEvent: _restart_draft,
        events.TextDeltaEvent: _write,
        events.ThinkingDeltaEvent: _write,
        events.ToolCallDeltaEvent: _write,
        events.ToolEndEvent: _end_call,
        events.ToolResultReceivedEvent: _end_call,
        events.ToolRetryEvent: _retry,
        events.ToolStartEvent: _start_call,
        events.ToolUpdateEvent: _progress,
        events.TurnCompletedEvent: _end_turn,
        events.TurnFailedEvent: _end_turn,
        events.TurnStartedEvent: _start_turn,
        events.TurnSteeredEvent: _steer,
        events.InterimAnswerEvent: _answer_message,
        events.UsageEvent: _use,
    }
    """The method that takes an event, by the event's class. `wait_in` takes waits."""


def _place(event: Event) -> dict[str, Any]:
    return {"event_id": event.event_id, "at": event.time, "turn_id": event.turn_id}


def _state_of(result: ToolResult) -> str:
    if result.error is None:
        return "done"
    code = result.error.code or ""
    return code if code in ("denied", "not_executed", "canceled") else "failed"


def _trim(known: dict[K, V], most: int) -> None:
    while len(known) > most:
        del known[next(iter(known))]

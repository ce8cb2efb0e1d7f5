"""Fold the events of one run into entries, and find the changes since a version.

A child run appears as the call that started it, and has its own timeline. A timeline keeps its newest
entries. The history has the older ones.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Any, ClassVar, TypeVar

from sojourn.contracts import event as events
from sojourn.contracts.awaits import Await, AwaitConfirmation, AwaitExternalTools
from sojourn.contracts.event import Event, wait_in
from sojourn.contracts.ids import place_of
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.payload.memory import memory_after
from sojourn.timeline.branches import TurnIndex, index_turns
from sojourn.timeline.entries import (
    Attempt,
    Call,
    ChangeKind,
    Delivery,
    Draft,
    End,
    Entry,
    EntryChange,
    Note,
    OpenWait,
    Plan,
    RunEnd,
    TokenUsage,
    TurnEnd,
    UserMessage,
    UserTurn,
    WaitEnd,
    WaitEntry,
)

__all__ = ["MOST_ENTRIES", "Timeline"]

MOST_ENTRIES = 400
"""Default for the number of entries that a timeline keeps."""

MOST_WAITS = 10_000
"""Most open waits, the newest ones."""

MAX_DRAFT = 60_000
"""Longest draft, in characters.

A longer draft is cut to its last half, so that its beginning changes seldom.
"""

MAX_ATTEMPTS = 20
"""Most attempts of a call or a plan, the newest ones."""

MAX_DRAFT_TOOLS = 100
"""Most calls of a draft."""

_OUTSIDE_TURNS = (
    events.ConversationBranchedEvent,
    events.MessageReceivedEvent,
    events.MessageWithdrawnEvent,
    events.TurnStartedEvent,
)
_OF_CONVERSATION = (
    events.ConversationBranchedEvent,
    events.MessageReceivedEvent,
    events.MessageWithdrawnEvent,
    events.TurnStartedEvent,
    events.TurnSteeredEvent,
    events.InterimAnswerEvent,
    events.TurnCompletedEvent,
    events.TurnFailedEvent,
)

K = TypeVar("K")
V = TypeVar("V")


class Timeline:
    """Grows with the events of a run."""

    def __init__(  # noqa: PLR0915 - one statement an attribute
        self,
        run_id: str,
        most: int = MOST_ENTRIES,
        *,
        most_records: int | None = None,
        is_conversation: bool = False,
        memory: Mapping[str, Any] | None = None,
    ) -> None:
        self.run_id = run_id
        self.is_conversation = is_conversation
        self.version = 0
        """Grows with every event of the run."""
        self.last_event_id = self.cursor = ""
        """The cursor after the last event: its id, unless `feed` was given another one."""
        self.agent_id = ""
        self.begun_at: datetime | None = None
        """When the first event happened."""
        self.started: events.RunStartedEvent | None = None
        """The start of the run, if it was among the events."""
        self.dropped = 0
        """Entries that are no longer kept."""
        self.end: End | None = None
        """How the run ended."""
        self.is_over = False
        """Whether no event comes any more."""
        self.is_paused = False
        self.spent = TokenUsage()
        """Usage of the run's plans and calls, as far as the events contain it."""
        self.memory: Mapping[str, Any] = memory or {}
        self.turns: list[UserTurn] = []
        """The turns of a conversation in order, of all its branches; empty for other runs."""
        self.head: str | None = None
        """The point after which the next turn begins, as `UserTurn.follows`."""
        self.branches = 0
        """How often the conversation went on from an earlier point."""
        self.branched_in = 0
        """The version in which it did so last."""
        self.queued: dict[str, UserMessage] = {}
        """Messages that no turn has taken, by id."""
        self.taken: dict[str, str] = {}
        """By message id: the user turn that took it."""
        self.open_waits: dict[str, OpenWait] = {}
        """By the id of the wait, oldest first."""
        self._waiting: dict[str, Call | WaitEntry] = {}
        """The entries of the open waits."""
        self.decisions: deque[WaitEnd] = deque(maxlen=most if most_records is None else most_records)
        """Waits that were answered, in order."""
        self.delivered: dict[str, Delivery] = {}
        """The first accepted message or answer, by message id."""
        self.last_user_text: str | None = None
        """Text of the last user message that the planner got; None if its event is not here."""
        self.last_assistant_text = ""
        """The planner's last text."""
        self._most, self._most_records = most, most if most_records is None else most_records
        self._entries: deque[Entry] = deque()
        self._changes: list[EntryChange] = []
        self._calls: dict[str, Call] = {}
        self._plan: Plan | None = None
        self._plan_of: dict[str, Plan] = {}
        """By call id: the plan whose message has the call."""
        self._before = ""
        self._plans = 0
        self._failed: dict[str, Call] = {}
        """By tool, the last call that failed with a hint and was not repeated yet."""
        self._indexed: tuple[int, TurnIndex] | None = None
        """The branches in a version, until its turns change without an event."""

    # Read.

    @property
    def entries(self) -> list[Entry]:
        """The last entries, in order."""
        return list(self._entries)

    def last(self, most: int) -> list[Entry]:
        """Return the last entries."""
        return list(islice(self._entries, max(0, len(self._entries) - most), None))

    def changes_since(self, since: int) -> list[Entry]:
        """Return the entries that were added or changed after a version."""
        return [entry for entry in self._entries if entry.version > since]

    def call(self, call_id: str) -> Call | None:
        """Return the call with this id, if it is among the last entries."""
        return self._calls.get(call_id)

    def plan_of(self, call_id: str) -> Plan | None:
        """Return the plan whose message has this call, or None if it is not here."""
        return self._plan_of.get(call_id)

    @property
    def has_backoff(self) -> bool:
        """Whether a plan or a call waits for the time of its next attempt."""
        calls = [call for call in self._calls.values() if call.state == "running"]
        plans = [self._plan] if self._plan and self._plan.is_open else []
        return any(each.attempts and each.attempts[-1].due for each in (*plans, *calls))

    @property
    def plan(self) -> Plan | None:
        """The last plan."""
        return self._plan

    @property
    def calls(self) -> list[Call]:
        """The calls among the last entries, in order."""
        return [entry for entry in self._entries if isinstance(entry, Call)]

    @property
    def turn(self) -> UserTurn | None:
        """The turn under way in a conversation."""
        return self.turns[-1] if self.turns and not self.turns[-1].is_over else None

    @property
    def path(self) -> list[UserTurn]:
        """The turns of the branch that the conversation is in, in order."""
        if not self.branches:
            return self.turns
        ended_at = self._index.ended_at
        newest = self.turns[-1] if self.turns else None
        is_cut = newest is not None and newest.is_over and newest.end is None  # with its run
        turn, path = self.turn or (newest if is_cut else ended_at.get(self.head or "")), list[UserTurn]()
        while turn is not None:
            path.append(turn)
            turn = ended_at.get(turn.follows or "")
        return path[::-1]

    def siblings(self, turn: UserTurn) -> list[UserTurn]:
        """Return the turns that began at the same point as a turn.

        They are in order, and the turn is one of them.
        """
        if turn.follows is None or not self.branches:
            return [turn]
        return list(self._index.begun_after[turn.follows])

    def tip(self, turn: UserTurn) -> str:
        """Return the event that ended the newest turn after a turn.

        It is empty while that turn is under way.
        """
        return self._index.tips[turn.key]

    @property
    def _index(self) -> TurnIndex:
        if self._indexed is None or self._indexed[0] != self.version:
            self._indexed = self.version, index_turns(self.turns)
        return self._indexed[1]

    @property
    def has_start(self) -> bool:
        """Whether the timeline has the beginning of the run."""
        return self.started is not None and not self.dropped

    def _has(self, event: Event) -> bool:
        return bool(event.event_id and place_of(event.event_id) <= place_of(self.last_event_id))

    # Grow.

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

    def keep_turns(self, most: int) -> None:
        """Drop all but the last turns, and a first turn without its beginning."""
        kept = {id(turn) for turn in (*self.turns[-most:], *self.path[-most:])}
        gone = [turn for turn in self.turns if id(turn) not in kept]
        self.turns[:] = [turn for turn in self.turns if id(turn) in kept]
        if len(self.turns) > 1 and not self.turns[0].has_start:
            gone.append(self.turns.pop(0))
        for entry in [entry for turn in gone for entry in turn.entries]:
            self._entries.remove(entry)
            self._forget(entry)
        self._indexed = None

    def prepend_turns(self, earlier: "Timeline") -> None:
        """Take the turns of an earlier part of the same conversation."""
        first = self.turns[0] if self.turns else None
        before = [
            turn
            for turn in earlier.turns
            if first is None or (place_of(turn.key) < place_of(first.key) and turn.id != first.id)
        ]
        for turn in before:
            turn.version = turn.born = 0
        cut = next((turn for turn in earlier.turns if first and turn.id == first.id), None)
        if first is not None and first.follows is None:
            first.follows = cut.follows if cut else earlier.head
        self.head = earlier.head if self.head is None else self.head
        self.branches = max(self.branches, earlier.branches)
        self.turns[:0] = before
        self._entries.extendleft(entry for turn in reversed(before) for entry in reversed(turn.entries))
        self.started, self.dropped = earlier.started, earlier.dropped
        self._indexed = None

    # Entries.

    def _add(self, entry: Entry, turn: UserTurn | None) -> None:
        entry.version = entry.born = self.version
        self._entries.append(entry)
        self._changes.append(EntryChange(entry, "added"))
        if turn is not None:
            self._join(turn, entry)
        if len(self._entries) > self._most:
            self._forget(self._entries.popleft())

    def _forget(self, gone: Entry) -> None:
        self.dropped += 1
        if isinstance(gone, Call) and self._calls.get(gone.id) is gone:
            del self._calls[gone.id]
        if isinstance(gone, Plan):
            for part in gone.message.tool_calls if gone.message else ():
                self._plan_of.pop(part.tool_call_id, None)
        if isinstance(gone, UserMessage):
            self.queued.pop(gone.message_id, None)
        if (turn := gone.turn) is not None:
            turn.entries.remove(gone)
            turn.dropped += 1
            if turn.is_over and not turn.entries and turn in self.turns:
                self.turns.remove(turn)

    def _touch(self, entry: Entry, kind: ChangeKind = "changed") -> None:
        self._changes.append(EntryChange(entry, kind))
        entry.version = self.version
        if entry.turn is not None:
            entry.turn.version = self.version

    def _join(self, turn: UserTurn, entry: Entry) -> None:
        turn.entries.append(entry)
        entry.turn = turn
        turn.version = self.version

    def _turn(self, event: Event) -> UserTurn | None:
        """Return the turn under way, or else the last one."""
        last = self.turns[-1] if self.turns else None
        if last and (not last.is_over or not event.turn_id or last.id == event.turn_id):
            return last
        return None

    def _turn_at_work(self, event: Event) -> UserTurn | None:
        """Return the turn of an event. Events may begin in the middle of it."""
        turn = self._turn(event)
        if turn is None and self.is_conversation:
            turn = UserTurn(event.event_id, event.turn_id, event.time, self._before, born=self.version)
            turn.is_opened = turn.has_start = False
            turn.ids.add(event.turn_id)
            self.turns.append(turn)
        return turn

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

    def _write(
        self, event: events.TextDeltaEvent | events.ThinkingDeltaEvent | events.ToolCallDeltaEvent
    ) -> None:
        plan = self._plan
        if plan is None or not plan.is_open:
            return
        draft = plan.draft
        if isinstance(event, events.TextDeltaEvent):
            draft.text, cut = _grow(draft.text, event.text)
            draft.text_start += cut
        elif isinstance(event, events.ThinkingDeltaEvent):
            draft.thinking, cut = _grow(draft.thinking, event.text)
            draft.thinking_start += cut
        elif len(draft.tools) <= min(event.index, MAX_DRAFT_TOOLS - 1):
            draft.tools.append(event.tool_name)
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
        opened, entry = self.open_waits.get(event.await_id), self._waiting.get(event.await_id)
        if event.message_id:
            after = opened.after if opened else self.cursor
            self._deliver(event.message_id, Delivery(event, after, self.cursor, opened))
        if opened is None or not isinstance(entry, Call):
            self._note(event)
            return
        entry.opened = self.open_waits[event.await_id] = replace(opened, wait=event.confirmation)
        if event.edited_arguments is not None:
            entry.call = entry.call.edited(event.edited_arguments)
        self._touch(entry)

    def _escalate(self, event: events.ApprovalEscalatedEvent) -> None:
        """Take the escalation of a call, which waits on."""
        opened, entry = self.open_waits.get(event.await_id), self._waiting.get(event.await_id)
        if opened is None or not isinstance(entry, Call):
            self._note(event)
            return
        entry.opened = self.open_waits[event.await_id] = replace(opened, wait=event.confirmation)
        self._touch(entry)

    def _answer(self, event: events.AwaitAnsweredEvent) -> None:
        opened, entry = self.open_waits.pop(event.await_id, None), self._waiting.pop(event.await_id, None)
        decision = WaitEnd(event, opened)
        self.decisions.append(decision)
        if event.message_id:
            after = opened.after if opened else self.cursor
            self._deliver(event.message_id, Delivery(event, after, self.cursor, opened))
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
        events.ApprovalEscalatedEvent: _escalate,
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
        events.RunCanceledEvent: _end_run,
        events.RunCompletedEvent: _end_run,
        events.RunContinuedEvent: _note,
        events.RunFailedEvent: _end_run,
        events.RunPausedEvent: _pause,
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


def _grow(text: str, piece: str) -> tuple[str, int]:
    """Return the longer text, and the number of characters cut from its beginning."""
    text += piece
    if len(text) <= MAX_DRAFT:
        return text, 0
    return text[-MAX_DRAFT // 2 :], len(text) - MAX_DRAFT // 2


def _trim(known: dict[K, V], most: int) -> None:
    while len(known) > most:
        del known[next(iter(known))]

"""What a fold tells of waits: what a run asks, what it is sent, and what becomes of the calls that wait."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from sojourn.contracts.awaits import Await, AwaitClarification, AwaitConfirmation, AwaitExternalTools
from sojourn.contracts.event import (
    AwaitAnsweredEvent,
    AwaitClarificationEvent,
    AwaitConfirmationEvent,
    AwaitExternalToolsEvent,
    BaseEvent,
    Event,
    PlannerNoteEvent,
    RunPausedEvent,
    RunResumedEvent,
    ToolEndEvent,
    ToolResultReceivedEvent,
    ToolStartEvent,
)
from sojourn.contracts.run import RunInput
from sojourn.contracts.tasks import Limits, PlanTask
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.awaits.answers import (
    CLARIFICATION,
    CONFIRMATION,
    TOOL_RESULTS,
    Answer,
    Clarified,
    Decided,
    Refused,
    Supplied,
)
from sojourn.core.awaits.opened import MAX_INPUT_ROUNDS
from sojourn.core.awaits.steering import (
    PAUSE,
    RESUME,
    STOP_ASKING,
    Paused,
    is_overtaken,
    not_understood,
    read_pause,
    read_release,
    read_resume,
)
from sojourn.core.awaits.waits import Released, Repeated, Waits
from sojourn.core.history.record import HistoryRecord, OpenCall
from sojourn.core.run import ids, outcomes
from sojourn.core.run.admission import not_executed
from sojourn.core.values.timers import EXPIRES, TIME_BUDGET

__all__ = ["WaitFold"]

Kind = TypeVar("Kind", bound=BaseEvent)

MAX_NAMED = 500
"""Characters of names that a note repeats."""


@dataclass(slots=True)
class WaitFold:
    """The part of a fold that knows what is waited for."""

    run_id: str
    run: RunInput | None = None
    _turn: int = 1
    _reason: str | None = None
    _local: dict[str, OpenCall] = field(default_factory=dict[str, OpenCall])
    _waits: Waits = field(default_factory=Waits)
    _asking: dict[str, tuple[ToolRequest, datetime]] = field(
        default_factory=dict[str, tuple[ToolRequest, datetime]]
    )
    """Calls that wait for a person or for a result from outside, by their wait's id or their own."""
    _unstarted: dict[str, ToolRequest] = field(default_factory=dict[str, ToolRequest])
    """Calls that nothing holds up but their turn: no worker and no child run has them yet."""
    _kinds: dict[str, str] = field(default_factory=dict[str, str])
    """By wait: how its call is carried out once it is approved."""
    _external: str = ""
    _forms: dict[str, list[AwaitClarification]] = field(default_factory=dict[str, list[AwaitClarification]])
    """By call: what its tool still asks, after the question that is open."""
    _asked_by: dict[str, int] = field(default_factory=dict[str, int])
    """By call: how often its tool has asked for input."""
    _supplier: dict[str, Any] = field(default_factory=dict[str, Any])
    _overtime: bool = False
    _paused: bool = False
    _heeded: int = 0
    """The highest number of what a parent run told."""

    def _event(self, record: HistoryRecord, kind: type[Kind], **payload: Any) -> Kind:
        run = self.run
        return kind(
            run_id=self.run_id,
            session_id=run.session_id if run else "",
            turn_id=ids.turn_after(run.turn_id if run else "", self._turn),
            agent_id=run.agent_id if run else "",
            parent_tool_call_id=run.parent.parent_tool_call_id if run and run.parent else None,
            time=record.time,
            **payload,
        )

    def _opened(self, record: HistoryRecord, wait: Await) -> Event:
        opened = self._waits.add(wait)
        if isinstance(opened, AwaitClarification):
            return self._event(record, AwaitClarificationEvent, question=opened)
        if isinstance(opened, AwaitConfirmation):
            return self._event(record, AwaitConfirmationEvent, confirmation=opened)
        self._external = opened.id
        return self._event(record, AwaitExternalToolsEvent, external=opened)

    def _tool_end(self, record: HistoryRecord, result: ToolResult, since: datetime) -> Iterator[Event]:
        yield self._event(record, ToolResultReceivedEvent, result=result)
        yield self._event(record, ToolEndEvent, result=result, duration=record.time - since)

    def _cut_short(self, call: ToolRequest) -> ToolResult:
        return outcomes.overtime(call) if self._overtime else outcomes.canceled(call, self._reason)

    def _sent(self, record: HistoryRecord) -> Iterator[Event]:
        """What somebody sent by an update or signal."""
        if record.name in (CLARIFICATION, CONFIRMATION, TOOL_RESULTS):
            yield from self._answered(record)
        elif record.name in (PAUSE, RESUME, STOP_ASKING):
            yield from self._steered(record)

    def _answered(self, record: HistoryRecord) -> Iterator[Event]:
        values = record.value
        door = "accepted" if record.judged else "signal"
        answer = self._waits.read(record.name, values[0] if len(values) == 1 else values, door)
        if isinstance(answer, Repeated):
            return
        if isinstance(answer, Refused):
            yield self._event(record, PlannerNoteEvent, text=f"answer refused: {answer.reason}")
            return
        question = self._waits.open.get(answer.await_id)
        for settled in self._waits.take(answer):
            yield from self._settled(record, settled)
        if isinstance(answer, Clarified) and isinstance(question, AwaitClarification):
            if question.tool_call_id is None:
                self._turn += 1
            else:
                yield from self._next_form(record, question.tool_call_id)

    def _settled(self, record: HistoryRecord, answer: Answer) -> Iterator[Event]:
        """A wait that an answer closes, with what becomes of its call."""
        said: dict[str, Any] = {"by": answer.by, "identity": record.identity or None}
        if isinstance(answer, Supplied):
            self._supplier = said  # told once the results are checked
            return
        said |= {"text": answer.text}
        if isinstance(answer, Clarified) and answer.declined:
            said |= {"code": "declined"}
        approved = answer.approved if isinstance(answer, Decided) else None
        yield self._event(record, AwaitAnsweredEvent, await_id=answer.await_id, approved=approved, **said)
        known = self._asking.pop(answer.await_id, None)
        if not isinstance(answer, Decided) or known is None:
            return
        call, since = known
        if not answer.approved:
            yield from self._not_run(record, call, since, outcomes.decided_against(call, answer))
        elif self._kinds.get(answer.await_id) == "local":
            self._local[call.tool_call_id] = OpenCall(call, record.time, is_local=True)
            yield self._event(record, ToolStartEvent, call=call)
        else:
            self._unstarted[call.tool_call_id] = call

    def _not_run(
        self, record: HistoryRecord, call: ToolRequest, since: datetime, result: ToolResult
    ) -> Iterator[Event]:
        yield self._event(record, ToolStartEvent, call=call)
        yield from self._tool_end(record, result, since)

    def _next_form(self, record: HistoryRecord, call_id: str) -> Iterator[Event]:
        forms = self._forms.get(call_id)
        if forms:
            yield self._opened(record, forms.pop(0))
        elif self._kinds.get(call_id) == "local" and (known := self._asking.pop(call_id, None)):
            self._local[call_id] = OpenCall(*known, is_local=True)

    def _may_ask_again(self, call_id: str) -> bool:
        self._asked_by[call_id] = self._asked_by.get(call_id, 0) + 1
        return self._asked_by[call_id] <= MAX_INPUT_ROUNDS

    def _timer_fired(self, record: HistoryRecord) -> Iterator[Event]:
        """Nobody answered a wait in time, or the time budget is used up."""
        if record.name == TIME_BUDGET:
            self._overtime = True
        elif record.name.startswith(EXPIRES):
            yield from self._expired(record, record.name.removeprefix(EXPIRES))

    def _expired(self, record: HistoryRecord, await_id: str) -> Iterator[Event]:
        wait = self._waits.open.get(await_id)
        if wait is None:
            return
        self._waits.close(await_id)
        yield self._event(record, AwaitAnsweredEvent, await_id=await_id, code="expired")
        if isinstance(wait, AwaitExternalTools):
            for item in wait.items:
                if known := self._asking.pop(item.tool_call_id, None):
                    yield from self._tool_end(record, outcomes.not_supplied(known[0]), known[1])
        elif isinstance(wait, AwaitConfirmation) and (known := self._asking.pop(await_id, None)):
            yield from self._not_run(record, known[0], known[1], outcomes.decided_against(known[0], None))
        elif isinstance(wait, AwaitClarification) and wait.tool_call_id:
            yield from self._next_form(record, wait.tool_call_id)

    def _steered(self, record: HistoryRecord) -> Iterator[Event]:
        values, identity = record.value, record.identity or None
        given = (
            read_pause(values)
            if record.name == PAUSE
            else read_release(values)
            if record.name == STOP_ASKING
            else read_resume(values, is_paused=self._paused)
        )
        if isinstance(given, Refused):
            yield self._event(record, PlannerNoteEvent, text=f"{record.name} refused: {given.reason}")
            return
        if rest := not_understood(record.name, values):
            yield self._event(record, PlannerNoteEvent, text=f"left out: {rest.reason}", identity=identity)
        if isinstance(given, Released):
            named = ", ".join([*given.tools, *given.tags])[:MAX_NAMED]
            by = f" by {given.by}" if given.by else ""
            yield self._event(
                record,
                PlannerNoteEvent,
                text=f"{named}: approved for the rest of the run{by}",
                identity=identity,
            )
            for settled in self._waits.release(given):
                yield from self._settled(record, settled)
        elif is_overtaken(given, self._heeded):
            return
        elif isinstance(given, Paused):
            self._heeded = given.number or self._heeded
            self._paused = True
            yield self._event(record, RunPausedEvent, text=given.reason, by=given.by, identity=identity)
        else:
            self._heeded = given.number or self._heeded
            if not self._paused:
                return
            self._paused = False
            said = [*given.messages]
            yield self._event(
                record, RunResumedEvent, text=given.note, messages=said, by=given.by, identity=identity
            )
            self._turn += bool(given.messages)

    def _given_up(self, record: HistoryRecord) -> Iterator[Event]:
        """The calls that wait for people or their turn when nothing waits for them: a cancelled run, or one out of time."""
        confirmed = {
            wait.tool_call_id for wait in self._waits.open.values() if isinstance(wait, AwaitConfirmation)
        }
        waiting = {call.tool_call_id: (call, since) for call, since in self._asking.values()}
        self._asking.clear()
        outside = {
            item.tool_call_id
            for wait in self._waits.open.values()
            if isinstance(wait, AwaitExternalTools)
            for item in wait.items
        }
        for await_id in list(self._waits.open) if _is_full(record) else ():
            self._waits.close(await_id)
            yield self._event(record, AwaitAnsweredEvent, await_id=await_id, code="history")
        for await_id in list(self._waits.open) if waiting else ():
            self._waits.close(await_id)
        for call, since in waiting.values():
            if call.tool_call_id in confirmed:
                yield self._event(record, ToolStartEvent, call=call)
            left = self._left_open(record, call)
            if call.tool_call_id in outside and _is_full(record):
                left = outcomes.not_read(call)
            yield from self._tool_end(record, left, since)
        for opened in self._local.values():
            yield from self._tool_end(record, self._left_open(record, opened.call), opened.since)
        for call in self._unstarted.values():
            yield from self._not_run(record, call, record.time, self._left_open(record, call))
        self._local.clear()
        self._unstarted.clear()

    def _left_open(self, record: HistoryRecord, call: ToolRequest) -> ToolResult:
        """The answer of a call that nothing in the history answers."""
        if _is_full(record):
            return not_executed(call, "history", Limits())
        if record.kind in ("scheduled", "run_canceled"):
            return self._cut_short(call)
        ended = ToolError.new("the run ended before this call was answered", code=record.kind)
        return outcomes.failed(call, ended)


def _is_full(record: HistoryRecord) -> bool:
    """Whether this is the last turn of a run whose history is full."""
    finalize = record.value.finalize if isinstance(record.value, PlanTask) else None
    return finalize is not None and finalize.reason == "history"

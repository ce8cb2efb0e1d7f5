"""Fold a run's history into its events: one pure function for streams, status, CLI and tests.

Every event is read from a recorded payload; the fold never decides. What the workflow derived
by a function of `sojourn.core` is derived here by the same function from the same record.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sojourn.contracts.event import Event
from sojourn.contracts.message import Message
from sojourn.contracts.plan import Finalize
from sojourn.contracts.run import RunInput, RunOutput
from sojourn.contracts.run_link import RunLink
from sojourn.contracts.run_policy import RunPolicy
from sojourn.contracts.tasks import PlanOutcome, PlanTask
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.core import call_ids, outcomes
from sojourn.core.admit import not_executed
from sojourn.core.answers import Refused, read_answer
from sojourn.core.counts import limits_of

__all__ = ["END", "Fold", "HistoryRecord"]

END = "run_stream_end"
"""The last event of every stream."""


@dataclass(frozen=True, slots=True)
class HistoryRecord:
    """One history event, decoded and freed of Temporal's types."""

    id: int
    time: datetime
    kind: str
    """`started` `scheduled` `completed` `failed` `local_ended` `child_initiated` `child_started` `child_completed`
    `child_failed` `answer` `cancel_requested` `run_completed` `run_failed` `run_canceled` `run_terminated` `run_timed_out`."""
    name: str = ""
    """Activity type, or the id of a child run."""
    key: str = ""
    """Activity id."""
    of: int = 0
    """The event that scheduled or initiated what ended here."""
    value: Any = None
    """The decoded input or result."""
    error: ToolError | None = None
    """The failure; None where what ended was cancelled."""
    timeout: str = ""
    """Which time-out it was, when the server gave the activity up: `schedule-to-start` `heartbeat` ..."""
    queue: str = ""
    """Where an activity waits for a worker."""
    waits: str = ""
    """How long it may wait there."""


@dataclass(slots=True)
class _Open:
    call: ToolRequest
    since: datetime
    link: RunLink | None = None
    queue: str = ""
    waits: str = ""
    typed: bool = False


@dataclass(slots=True)
class Fold:
    """The state of the fold of one run; feed it history records in order."""

    run_id: str
    run: RunInput | None = None
    policy: RunPolicy = field(default_factory=RunPolicy)
    _turn: int = 1
    _limit: Finalize | None = None
    _reason: str | None = None
    _open: dict[int, _Open] = field(default_factory=dict[int, _Open])
    _local: dict[str, _Open] = field(default_factory=dict[str, _Open])
    _planned: dict[str, ToolRequest] = field(default_factory=dict[str, ToolRequest])
    _question: Any = None
    _await_ids: list[str] = field(default_factory=list[str])

    def feed(self, record: HistoryRecord) -> list[Event]:
        """The events of one record, in order."""
        step: Callable[[HistoryRecord], Iterator[Event]] | None = getattr(self, f"_{record.kind}", None)
        made = list(step(record)) if step else []
        return [
            event.model_copy(update={"event_id": f"0-{record.id:06d}-{k:05d}"})
            for k, event in enumerate(made)
        ]

    def _event(self, record: HistoryRecord, type: str, **payload: Any) -> Event:
        run = self.run
        return Event(
            type=type,
            run_id=self.run_id,
            session_id=run.session_id if run else "",
            turn_id=call_ids.turn_after(run.turn_id if run else "", self._turn),
            agent_id=run.agent_id if run else "",
            event_id="",
            time=record.time,
            **payload,
        )

    def _started(self, record: HistoryRecord) -> Iterator[Event]:
        self.run = record.value if isinstance(record.value, RunInput) else None
        opening = self.run.messages if self.run else []
        first = next((m for m in reversed(opening) if m.role == "user"), None)
        yield self._event(record, "run_started", message=first)

    def _scheduled(self, record: HistoryRecord) -> Iterator[Event]:
        if isinstance(record.value, PlanTask):
            self._open[record.id] = _Open(ToolRequest(name="plan"), record.time)
            if record.value.finalize and record.value.finalize != self._limit:
                self._limit = record.value.finalize
                yield self._event(record, "limit_reached", limit=self._limit)
            yield self._event(record, "plan_started")
        elif record.value is not None:
            task = record.value
            call = ToolRequest(name=task.name, payload=task.payload, raw=task.raw, tool_call_id=record.key)
            self._open[record.id] = _Open(call, record.time, queue=record.queue, waits=record.waits)
            yield self._event(record, "tool_start", call=call)

    def _completed(self, record: HistoryRecord) -> Iterator[Event]:
        opened = self._open.pop(record.of, None)
        if isinstance(record.value, PlanOutcome):
            yield from self._planned_events(record, record.value)
        elif isinstance(record.value, ToolResult) and opened:
            yield self._tool_end(
                record, outcomes.of_call(opened.call, record.value, self.run_id), opened.since
            )

    def _local_ended(self, record: HistoryRecord) -> Iterator[Event]:
        """A local activity leaves one marker: its id and how it ended."""
        opened = self._local.pop(record.key, None)
        if not opened:
            return
        if isinstance(record.value, ToolResult):
            result = outcomes.of_call(opened.call, record.value, self.run_id)
        elif record.error:
            result = outcomes.failed(opened.call, record.error)
        else:
            result = outcomes.canceled(opened.call, self._reason)
        yield self._tool_end(record, result, opened.since)

    def _failed(self, record: HistoryRecord) -> Iterator[Event]:
        opened = self._open.pop(record.of, None)
        if not opened or not opened.call.tool_call_id:
            return
        if record.timeout:
            result = outcomes.timed_out(opened.call, record.timeout, opened.queue, opened.waits)
        elif record.error:
            result = outcomes.failed(opened.call, record.error)
        else:
            result = outcomes.canceled(opened.call, self._reason)
        yield self._tool_end(record, result, opened.since)

    def _cancel_requested(self, record: HistoryRecord) -> Iterator[Event]:
        self._reason = record.value
        return iter(())

    def _tool_end(self, record: HistoryRecord, result: ToolResult, since: datetime) -> Event:
        return self._event(record, "tool_end", result=result, duration=record.time - since)

    def _planned_events(self, record: HistoryRecord, plan: PlanOutcome) -> Iterator[Event]:
        self.policy = plan.policy or self.policy
        for note in plan.notes:
            yield self._event(record, "planner_note", text=note)
        if plan.fault:
            yield self._event(record, "planner_note", text=f"planner fault: {plan.fault}")
        if plan.usage:
            yield self._event(record, "usage", usage=plan.usage)
        if plan.calls:
            yield self._event(record, "assistant_message", message=plan.message or Message.calls(plan.calls))
            yield from self._answered_calls(record, plan)
        elif plan.final:
            yield self._event(record, "assistant_message", message=plan.final)
        elif plan.await_:
            asked = plan.await_
            await_id = call_ids.await_id(asked.id, tool=asked.restrict_to_tool, taken=self._await_ids)
            self._await_ids.append(await_id)
            self._question = asked.model_copy(update={"id": await_id})
            yield self._event(record, "await_clarification", question=self._question)

    def _answered_calls(self, record: HistoryRecord, plan: PlanOutcome) -> Iterator[Event]:
        """Start and end of the calls that need no activity; the others end later."""
        limits = limits_of(self.policy)
        self._planned = {call.tool_call_id: call for call in plan.calls}
        for index, call in enumerate(plan.calls):
            dispatch = plan.dispatches[index] if index < len(plan.dispatches) else None
            if dispatch and dispatch.kind == "local":
                self._local[call.tool_call_id] = _Open(call, record.time)
                yield self._event(record, "tool_start", call=call)
                continue
            result = dispatch.result if dispatch else not_executed(call, plan.refused, limits)
            if result is not None:
                yield self._event(record, "tool_start", call=call)
                yield self._tool_end(record, result, record.time)

    def _child_initiated(self, record: HistoryRecord) -> Iterator[Event]:
        call_id = record.name.rsplit("/", 1)[-1]
        call = self._planned.get(call_id, ToolRequest(name="", tool_call_id=call_id))
        agent_id = record.value.agent_id if isinstance(record.value, RunInput) else ""
        link = RunLink(
            run_id=record.name, agent_id=agent_id, parent_run_id=self.run_id, parent_tool_call_id=call_id
        )
        typed = isinstance(record.value, RunInput) and record.value.answer is not None
        self._open[record.id] = _Open(call, record.time, link, typed=typed)
        yield self._event(record, "tool_start", call=call)

    def _child_started(self, record: HistoryRecord) -> Iterator[Event]:
        opened = self._open.get(record.of)
        if opened:
            yield self._event(record, "agent_run_started", run_link=opened.link, call=opened.call)

    def _child_completed(self, record: HistoryRecord) -> Iterator[Event]:
        opened = self._open.pop(record.of, None)
        if not opened or not opened.link:
            return
        if isinstance(record.value, RunOutput):
            result = outcomes.child_finished(opened.call, record.value, opened.link, typed=opened.typed)
        elif record.error:
            result = outcomes.child_failed(opened.call, record.error, opened.link)
        else:
            canceled = outcomes.canceled(opened.call, self._reason)
            result = canceled.model_copy(update={"run_link": opened.link})
        yield self._tool_end(record, result, opened.since)

    _child_failed = _child_completed

    def _answer(self, record: HistoryRecord) -> Iterator[Event]:
        answer = read_answer(record.value, self._question, self._await_ids)
        if isinstance(answer, Refused):
            yield self._event(record, "planner_note", text=f"answer refused: {answer.reason}")
            return
        self._question = None
        yield self._event(record, "await_answered", await_id=answer.await_id, text=answer.text, by=answer.by)
        self._turn += 1

    def _run_completed(self, record: HistoryRecord) -> Iterator[Event]:
        for opened in (*self._open.values(), *self._local.values()):
            if opened.call.tool_call_id:
                cut_off = ToolError.new("the run ended before this call was answered", code=record.kind)
                result = outcomes.failed(opened.call, cut_off).model_copy(update={"run_link": opened.link})
                yield self._tool_end(record, result, opened.since)
        output = record.value if isinstance(record.value, RunOutput) else None
        error = record.error
        text, code = (str(error), error.code) if error else (None, None)
        yield self._event(record, record.kind, output=output, text=text, code=code)
        yield self._event(record, END)

    _run_failed = _run_canceled = _run_terminated = _run_timed_out = _run_completed

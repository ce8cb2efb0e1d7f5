"""The tree of a run: what happened in it, in order, from its events; it knows which part of it changed since when.

It holds one run. A child run stands in it as the call that started it, and has a tree of its own. Of a long run it keeps the last
entries; what was before is read again by whoever wants it.
"""

from collections import deque
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import islice
from typing import Any

from sojourn.console.views.entries import Attempt, Call, Decision, End, Entry, Note, Plan, Question, Said
from sojourn.console.views.spent import Spent
from sojourn.contracts import event as told
from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.event import Event
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.history.fork_changes import texts_of_changes

__all__ = ["MOST", "RunTree"]

MOST = 400
"""Most entries that are kept."""

MAX_DRAFT = 20_000
"""Most characters of what a planner is writing that are kept, the last ones."""

MAX_ATTEMPTS = 20
"""Most attempts of a call that are kept."""


class RunTree:
    """Grows with the events of a run.

    Args:
        run_id: The run; events of other runs change nothing.
        most: Most entries that are kept.
    """

    def __init__(self, run_id: str, most: int = MOST) -> None:
        self.run_id = run_id
        self.version = 0
        """Grows with every change."""
        self.last_event_id = ""
        """The last event that was taken in."""
        self.dropped = 0
        """Entries that are kept no longer."""
        self.is_over = False
        """Whether the run has ended."""
        self.spent = Spent()
        """What the run has used, as far as its plans and calls have told."""
        self._most = most
        self._entries: deque[Entry] = deque()
        self._calls: dict[str, Call] = {}
        self._waits: dict[str, Call | Question] = {}
        self._received: dict[str, Said] = {}
        self._plan: Plan | None = None
        self._plans = 0
        self._failed: dict[str, Call] = {}
        """By tool, the last call that failed with a hint, and was not repeated yet."""

    def __iter__(self) -> Iterator[Entry]:
        """The entries, in their order."""
        return iter(self._entries)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._entries)

    def last(self, most: int) -> list[Entry]:
        """The last entries."""
        return list(islice(self._entries, max(0, len(self._entries) - most), None))

    def call(self, call_id: str) -> Call | None:
        """A call that is kept."""
        return self._calls.get(call_id)

    def changed(self, since: int) -> list[Entry]:
        """The entries that came or changed after a version."""
        return [entry for entry in self._entries if entry.version > since]

    @property
    def calls(self) -> list[Call]:
        """The calls that are kept."""
        return [entry for entry in self._entries if isinstance(entry, Call)]

    def feed(self, event: Event) -> None:
        """Take in the next event."""
        if event.run_id != self.run_id:
            return
        self.version += 1
        if event.event_id:
            self.last_event_id = event.event_id
        if take := _TAKES.get(type(event)):
            take(self, event)

    # Entries.

    def add(self, entry: Entry) -> None:
        """Add an entry at the end."""
        entry.version = entry.born = self.version
        self._entries.append(entry)
        if len(self._entries) > self._most:
            gone = self._entries.popleft()
            self.dropped += 1
            if isinstance(gone, Call):
                self._calls.pop(gone.id, None)

    def touch(self, entry: Entry | None) -> None:
        """Note that an entry has changed."""
        if entry is not None:
            entry.version = self.version

    def note(self, event: Event, sign: str, title: str, text: str | None = "", **more: Any) -> None:
        """Add a note about an event."""
        place = {"key": f"e-{event.event_id}", "event_id": event.event_id, "at": event.time}
        self.add(Note(**place, sign=sign, title=title, text=text or "", **more))

    # Messages and turns.

    def take_start(self, event: told.RunStartedEvent) -> None:
        """The run began."""
        if event.forked_from:
            origin = event.forked_from
            given = [f"It was given the {text}" for text in texts_of_changes(origin)]
            title = f"Forked from {origin.run_id} at {origin.event_id}"
            self.note(event, "fork", title, "\n".join(given), by=origin.forked_by or "")
        if event.message:
            self.add(
                Said(
                    key=f"said-{event.event_id}",
                    event_id=event.event_id,
                    at=event.time,
                    message=event.message,
                    turn_id=event.turn_id,
                )
            )

    def take_message(self, event: told.MessageReceivedEvent) -> None:
        """A conversation has accepted a message."""
        said = Said(
            key=f"e-{event.event_id}",
            event_id=event.event_id,
            at=event.time,
            message=event.message,
            mode=event.mode,
            by=event.by or "",
            is_taken=False,
        )
        self._received[event.message_id] = said
        self.add(said)

    def take_turn(self, event: told.TurnStartedEvent | told.TurnSteeredEvent) -> None:
        """Messages joined a turn."""
        for message_id in event.message_ids:
            if said := self._received.pop(message_id, None):
                said.is_taken, said.turn_id = True, event.turn_id
                self.touch(said)

    def take_turn_end(self, event: told.TurnCompletedEvent | told.TurnFailedEvent) -> None:
        """A turn ended."""
        self._end_plan(event.time)
        if isinstance(event, told.TurnCompletedEvent):
            self._ended(event, "completed", f"Turn {event.turn_id} is answered", output=event.output)
        else:
            self._ended(event, "failed", f"Turn {event.turn_id} failed", error=event.error)

    # Plans.

    def take_plan(self, event: told.PlanStartedEvent) -> None:
        """The planner began a plan."""
        self._end_plan(event.time)
        self._plans += 1
        self._plan = Plan(
            key=f"e-{event.event_id}",
            event_id=event.event_id,
            at=event.time,
            number=self._plans,
            turn_id=event.turn_id,
        )
        self.add(self._plan)

    def take_said(self, event: told.AssistantMessageEvent) -> None:
        """The planner said something."""
        if self._plan is None:
            self.take_plan(
                told.PlanStartedEvent(
                    run_id=event.run_id, event_id=event.event_id, time=event.time, turn_id=event.turn_id
                )
            )
        if self._plan is not None:
            self._plan.message, self._plan.said_event_id = event.message, event.event_id
        self._end_plan(event.time)

    def take_usage(self, event: told.UsageEvent) -> None:
        """A plan used a model."""
        if self._plan is not None:
            self._plan.usage = event.usage
            self.touch(self._plan)
        self.spent = self.spent.plus(event.usage)

    def take_delta(self, event: told.TextDeltaEvent) -> None:
        """The planner writes."""
        if self._plan is not None and self._plan.is_open:
            self._plan.draft = (self._plan.draft + event.text)[-MAX_DRAFT:]
            self.touch(self._plan)

    def take_restart(self, _: told.StreamRestartedEvent) -> None:
        """The planner writes anew."""
        if self._plan is not None:
            self._plan.draft = ""
            self.touch(self._plan)

    def _end_plan(self, at: datetime) -> None:
        if self._plan is not None and self._plan.is_open:
            self._plan.ended_at, self._plan.draft = at, ""
            self.touch(self._plan)

    # Calls.

    def take_call(self, event: told.ToolStartEvent | told.AgentRunStartedEvent) -> None:
        """A call began, or its child run did."""
        call = self._call(event, event.call)
        if isinstance(event, told.AgentRunStartedEvent):
            call.child = event.run_link
        if call.wait is not None and call.decision is not None:
            call.state = "running"
        self.touch(call)

    def take_result(self, event: told.ToolEndEvent | told.ToolResultReceivedEvent) -> None:
        """A call ended."""
        result = event.result
        call = self._call(event, ToolRequest(name=result.name, tool_call_id=result.tool_call_id))
        call.result, call.state = result, _state_of(result)
        call.child = result.run_link or call.child
        call.ended_at = call.ended_at or event.time
        if isinstance(event, told.ToolEndEvent):
            call.end_event_id = event.event_id
            self.spent = self.spent.plus(result.telemetry)
        call.progress, call.done, call.total = "", None, None
        if result.error and result.retry_hint:
            self._failed[call.call.name] = call
        self.touch(call)

    def _call(self, event: Event, asked: ToolRequest) -> Call:
        known = self._calls.get(asked.tool_call_id)
        if known is not None:
            if asked.readings or not (known.call.payload or known.call.raw):
                known.call = asked
            return known
        self._end_plan(event.time)
        call = Call(key=f"call-{asked.tool_call_id}", event_id=event.event_id, at=event.time, call=asked)
        if before := self._failed.get(asked.name):
            before.mended_by, call.mends = asked.tool_call_id, before.id
            del self._failed[asked.name]
            self.touch(before)
        self._calls[asked.tool_call_id] = call
        if self._plan is not None:
            self._plan.calls.append(asked.tool_call_id)
            self.touch(self._plan)
        self.add(call)
        return call

    def take_retry(self, event: told.ToolRetryEvent) -> None:
        """A call or a plan is attempted again."""
        entry = self._calls.get(event.tool_call_id) if event.tool_call_id else self._plan
        if entry is not None:
            attempt = Attempt(event.attempt, event.error, event.due)
            entry.attempts = [each for each in entry.attempts if each.number != event.attempt]
            entry.attempts = [*entry.attempts, attempt][-MAX_ATTEMPTS:]
            self.touch(entry)

    def take_progress(self, event: told.ToolUpdateEvent) -> None:
        """A call tells how far it is."""
        if call := self._calls.get(event.tool_call_id):
            call.progress, call.done, call.total = event.note, event.done, event.total
            self.touch(call)

    # Waits.

    def take_confirmation(self, event: told.AwaitConfirmationEvent) -> None:
        """A person is asked whether a call may run."""
        asked: AwaitConfirmation = event.confirmation
        call = self._call(
            event, ToolRequest(name=asked.tool, payload=asked.payload, tool_call_id=asked.tool_call_id)
        )
        call.wait, call.waited_since, call.decision, call.state = asked, event.time, None, "waiting"
        self._waits[asked.id] = call
        self.touch(call)

    def take_question(self, event: told.AwaitClarificationEvent | told.AwaitExternalToolsEvent) -> None:
        """A person, or a program outside, is asked."""
        self._end_plan(event.time)
        wait = event.question if isinstance(event, told.AwaitClarificationEvent) else event.external
        question = Question(key=f"e-{event.event_id}", event_id=event.event_id, at=event.time, wait=wait)
        self._waits[wait.id] = question
        self.add(question)

    def take_answer(self, event: told.AwaitAnsweredEvent) -> None:
        """A wait ended."""
        waiting = self._waits.pop(event.await_id, None)
        if waiting is None:
            return
        waiting.decision = Decision.of(event)
        if isinstance(waiting, Call) and waiting.state == "waiting":
            waiting.state = "running" if event.approved else "denied"
        self.touch(waiting)

    # Notes.

    def take_note(self, event: told.PlannerNoteEvent) -> None:
        """The planner, or somebody, notes something."""
        self.note(event, "note", "Note", event.text, by=event.by or "")

    def take_policy(self, event: told.PolicyDecisionEvent) -> None:
        """The policy engine decided."""
        value = event.decision.model_dump(mode="json", exclude_defaults=True, exclude={"reason"})
        self.note(event, "policy", "The policy changed", event.decision.reason, value=value)

    def take_pause(self, event: told.RunPausedEvent) -> None:
        """The run is paused."""
        self.note(event, "paused", "Paused", event.text, by=event.by or "")

    def take_resume(self, event: told.RunResumedEvent) -> None:
        """The run goes on."""
        text = "\n".join(filter(None, (event.text, *event.messages)))
        self.note(event, "running", "Resumed", text, by=event.by or "")

    def take_memory(self, event: told.MemoryChangedEvent) -> None:
        """The memory changed."""
        self.note(event, "memory", "Memory changed", value=event.patch)

    def take_limit(self, event: told.LimitReachedEvent | told.RetriesStoppedEvent) -> None:
        """A limit, or a safeguard, ends the planning."""
        stopped = isinstance(event, told.RetriesStoppedEvent)
        title = "A safeguard stopped the retries" if stopped else "A limit is reached"
        self.note(event, "stuck", title, event.limit.message, is_bad=True)

    def take_continued(self, event: told.RunContinuedEvent) -> None:
        """The run goes on in another execution."""
        if not event.is_start:
            self.note(event, "link", f"Goes on in execution {event.executions + 1}")

    # Ends.

    def take_completed(self, event: told.RunCompletedEvent) -> None:
        """The run has an answer."""
        self._end_plan(event.time)
        self._ended(event, "completed", "Answered", output=event.output)

    def take_failed(self, event: told.RunFailedEvent) -> None:
        """The run failed."""
        self._end_plan(event.time)
        self._ended(event, "failed", "Failed", error=event.error, text=event.text or "")

    def take_cut(
        self, event: told.RunCanceledEvent | told.RunTerminatedEvent | told.RunTimedOutEvent
    ) -> None:
        """The run was ended from outside."""
        self._end_plan(event.time)
        status = event.type.removeprefix("run_")
        self._ended(event, status, status.replace("_", " ").capitalize(), text=event.text or "")

    def take_over(self, _: told.RunStreamEndEvent) -> None:
        """Nothing comes any more."""
        self.is_over = True

    def _ended(
        self, event: Event, status: str, title: str, error: ToolError | None = None, **more: Any
    ) -> None:
        place = {"key": f"e-{event.event_id}", "event_id": event.event_id, "at": event.time}
        output = more.get("output")
        if self._plan is not None and output is not None and self._plan.text == output.text:
            self._plan.is_answer = True
            self.touch(self._plan)
        self.add(End(**place, status=status, title=title, error=error, **more))


def _state_of(result: ToolResult) -> str:
    if result.error is None:
        return "done"
    code = result.error.code or ""
    return code if code in ("denied", "not_executed", "canceled") else "failed"


_TAKES: dict[type[Any], Callable[[RunTree, Any], None]] = {
    told.AgentRunStartedEvent: RunTree.take_call,
    told.AssistantMessageEvent: RunTree.take_said,
    told.AwaitAnsweredEvent: RunTree.take_answer,
    told.AwaitClarificationEvent: RunTree.take_question,
    told.AwaitConfirmationEvent: RunTree.take_confirmation,
    told.AwaitExternalToolsEvent: RunTree.take_question,
    told.LimitReachedEvent: RunTree.take_limit,
    told.MemoryChangedEvent: RunTree.take_memory,
    told.MessageReceivedEvent: RunTree.take_message,
    told.PlanStartedEvent: RunTree.take_plan,
    told.PlannerNoteEvent: RunTree.take_note,
    told.PolicyDecisionEvent: RunTree.take_policy,
    told.RetriesStoppedEvent: RunTree.take_limit,
    told.RunCanceledEvent: RunTree.take_cut,
    told.RunCompletedEvent: RunTree.take_completed,
    told.RunContinuedEvent: RunTree.take_continued,
    told.RunFailedEvent: RunTree.take_failed,
    told.RunPausedEvent: RunTree.take_pause,
    told.RunResumedEvent: RunTree.take_resume,
    told.RunStartedEvent: RunTree.take_start,
    told.RunStreamEndEvent: RunTree.take_over,
    told.RunTerminatedEvent: RunTree.take_cut,
    told.RunTimedOutEvent: RunTree.take_cut,
    told.StreamRestartedEvent: RunTree.take_restart,
    told.TextDeltaEvent: RunTree.take_delta,
    told.ToolEndEvent: RunTree.take_result,
    told.ToolResultReceivedEvent: RunTree.take_result,
    told.ToolRetryEvent: RunTree.take_retry,
    told.ToolStartEvent: RunTree.take_call,
    told.ToolUpdateEvent: RunTree.take_progress,
    told.TurnCompletedEvent: RunTree.take_turn_end,
    told.TurnFailedEvent: RunTree.take_turn_end,
    told.TurnStartedEvent: RunTree.take_turn,
    told.TurnSteeredEvent: RunTree.take_turn,
    told.UsageEvent: RunTree.take_usage,
}
"""What an event changes, by its class; an event of no other class changes anything that is shown."""

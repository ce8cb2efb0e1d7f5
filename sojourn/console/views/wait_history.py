"""What happened in a run before a wait, and how the wait ended."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sojourn.answers import WaitView, wait_view
from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.event import PlannerNoteEvent, RunPausedEvent, RunResumedEvent
from sojourn.contracts.ids import place_of
from sojourn.timeline import Call, Entry, Note, OpenWait, Plan, Timeline, UserMessage, WaitEnd, WaitEntry
from sojourn.values.visible import one_line

__all__ = ["WaitHistory", "before_wait"]

MOST_STEPS = 8
"""Maximum number of steps before a wait."""

MAX_TEXT = 600
"""Longest text of a step, in characters."""


@dataclass(frozen=True, slots=True)
class HistoryStep:
    kind: str
    """`user`, `agent`, `call`, `result`, `fault`, `answer` or `note`.

    It also names the shape in a page.
    """
    who: str
    """Name of the person, agent or tool."""
    value: Any
    at: datetime
    event_id: str

    @property
    def text(self) -> str:
        return one_line(self.value if isinstance(self.value, str) else _json(self.value), MAX_TEXT)


@dataclass(frozen=True, slots=True)
class WaitHistory:
    """How a wait was opened and answered, with the steps before it."""

    wait: WaitView | None = None
    """The wait when it was opened. None if the history does not have it."""
    event_id: str = ""
    """The event that opened it."""
    steps: list[HistoryStep] = field(default_factory=list[HistoryStep])
    """The last steps before it."""
    earlier: int = 0
    """Number of steps before those."""
    approved: WaitEnd | None = None
    """The last approval of a call of the same tool."""
    decision: WaitEnd | None = None
    """How the wait ended."""
    asked: str = ""
    """The message that opened the run."""
    for_whom: str = ""
    """For a child run, the message that opened the root run."""


def before_wait(timeline: Timeline, opened: OpenWait) -> WaitHistory:
    """Return the history of a wait at its opening, the last event of the timeline."""
    place, wait = place_of(opened.event_id), opened.wait
    steps = [step for entry in timeline.entries for step in _steps(entry) if place_of(step.event_id) < place]
    steps.sort(key=lambda step: place_of(step.event_id))
    started = timeline.started
    return WaitHistory(
        wait_view(wait, opened.run_id, since=opened.since),
        opened.event_id,
        steps[-MOST_STEPS:],
        max(len(steps) - MOST_STEPS, 0) + timeline.dropped,
        _last_approval(timeline, wait.tool) if isinstance(wait, AwaitConfirmation) else None,
        asked=started.message.text if started and started.message else "",
    )


def _last_approval(timeline: Timeline, tool: str) -> WaitEnd | None:
    for decision in reversed(timeline.decisions):
        wait = decision.wait
        if decision.event.approved and isinstance(wait, AwaitConfirmation) and wait.tool == tool:
            return decision
    return None


def _steps(entry: Entry) -> Iterator[HistoryStep]:
    match entry:
        case UserMessage(message=message):
            who = entry.by or ("User" if entry.message_id else "Asked")
            yield HistoryStep("user", one_line(who, 80), message.text, entry.at, entry.event_id)
        case Plan(message=message) if message and message.text:
            yield HistoryStep(
                "agent", "Agent", message.text, entry.ended_at or entry.at, entry.message_event_id
            )
        case Call():
            yield from _call_steps(entry)
        case WaitEntry(wait=wait):
            if wait.is_for_people:  # else its calls are steps
                yield HistoryStep("agent", "Asked", wait.summary, entry.at, entry.event_id)
            yield from _decision_step(entry.decision)
        case Note(event=RunPausedEvent() | RunResumedEvent() as event):
            did = "paused" if isinstance(event, RunPausedEvent) else "resumed"
            text = f"{did} the run{f': {event.text}' if event.text else ''}"
            yield HistoryStep("note", one_line(event.by or "A person", 80), text, entry.at, entry.event_id)
        case Note(event=PlannerNoteEvent(text=text)):
            yield HistoryStep("note", "Note", text, entry.at, entry.event_id)
        case _:
            pass


def _call_steps(entry: Call) -> Iterator[HistoryStep]:
    call, result, name = entry.call, entry.result, one_line(entry.call.name, 80)
    value = call.payload if call.raw is None else call.raw
    yield HistoryStep("call", name, value, entry.at, entry.event_id)
    yield from _decision_step(entry.decision)
    if result is not None and entry.ended_at and entry.end_event_id:
        kind, value = ("fault", str(result.error)) if result.error else ("result", result.result)
        yield HistoryStep(kind, name, value, entry.ended_at, entry.end_event_id)


def _decision_step(decision: WaitEnd | None) -> Iterator[HistoryStep]:
    if decision is None:
        return
    text = ": ".join(filter(None, (decision.words, decision.event.text or "")))
    if isinstance(decision.wait, AwaitConfirmation):
        text = f"{text} ({decision.wait.tool})"
    yield HistoryStep(
        "answer", one_line(decision.who or "No answer", 80), text, decision.at, decision.event.event_id
    )


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)[:10_000]
    except ValueError:  # an integer has more digits than Python formats
        return hex(value) if isinstance(value, int) else "…"

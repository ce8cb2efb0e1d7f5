"""Entries, turns and events of a run, in words."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sojourn.console.views.markdown import MOST, pieces_of
from sojourn.console.views.text import lines_of
from sojourn.console.views.values import json_beginning, json_text, line_of
from sojourn.contracts import event as events
from sojourn.contracts.attachment import AttachmentRecord
from sojourn.contracts.event import (
    AgentRunStartedEvent,
    AssistantMessageEvent,
    BaseEvent,
    Event,
    LimitReachedEvent,
    MemoryChangedEvent,
    MessageReceivedEvent,
    PlannerNoteEvent,
    RetriesStoppedEvent,
    RunPausedEvent,
    RunResumedEvent,
    RunStartedEvent,
    ToolEndEvent,
    ToolResultReceivedEvent,
    ToolStartEvent,
)
from sojourn.contracts.message import Message, TextPart, ThinkingPart, ToolCallPart
from sojourn.contracts.tool_call import ToolRequest
from sojourn.http.problems import redact
from sojourn.timeline import (
    Call,
    End,
    Entry,
    Note,
    Plan,
    Timeline,
    UserMessage,
    UserTurn,
    WaitEntry,
    describe_verdict,
)
from sojourn.values.visible import one_line

__all__ = [
    "MOST_TEXT",
    "EventRow",
    "call_text",
    "end_look",
    "end_text",
    "end_title",
    "event_row",
    "event_text",
    "markdown_of",
    "markdown_of_message",
    "markdown_of_turn",
    "newest_entries",
    "note_line",
    "note_text",
    "outcome_of",
    "request_text",
    "turn_facts",
    "turns_before",
]

MOST_TEXT = 6_000
"""Longest text of an entry on a page, in characters."""


class NoteText(NamedTuple):
    icon: str
    """Its name in `icons.html`."""
    title: str
    text: str = ""
    by: str = ""
    value: Any = None
    """Data to unfold."""


def note_text(note: Note) -> NoteText:
    match note.event:
        case events.RunStartedEvent(forked_from=origin) if origin:
            changes = "\n".join(f"Changed: {text}" for text in origin.change_texts)
            title = f"Forked from {origin.run_id} at {origin.event_id}"
            return NoteText("fork", title, changes, origin.forked_by or "")
        case events.PlannerNoteEvent(text=text, by=by):
            return NoteText("note", "Note", text, by or "")
        case events.PolicyDecisionEvent(decision=decision):
            changes = decision.model_dump(mode="json", exclude_defaults=True, exclude={"reason"})
            return NoteText("policy", "The policy changed", decision.reason or "", value=changes)
        case events.ConversationBranchedEvent(message_id=message_id):
            title = "Message edited or answered again" if message_id else "Switched to another branch"
            return NoteText("fork", title, message_id)
        case events.MessageWithdrawnEvent(message_id=message_id, by=by):
            return NoteText("canceled", "Message withdrawn", message_id, by or "")
        case events.RunQueuedEvent(text=text) | events.RunAdmittedEvent(text=text):
            return NoteText("waiting", "Quota", text)
        case events.RunPausedEvent(text=text, by=by):
            return NoteText("paused", "Paused", text or "", by or "")
        case events.RunResumedEvent(text=text, by=by, messages=messages):
            return NoteText("running", "Resumed", "\n".join(filter(None, (text, *messages))), by or "")
        case _:
            return _note_of_run(note.event)


def _note_of_run(event: events.Event) -> NoteText:
    match event:
        case events.MemoryChangedEvent(patch=patch):
            return NoteText("memory", "Memory changed", value=patch)
        case events.LimitReachedEvent(limit=limit):
            return NoteText("stuck", "Limit reached", limit.message)
        case events.RetriesStoppedEvent(limit=limit):
            return NoteText("stuck", "A safeguard stopped retries", limit.message)
        case events.RunContinuedEvent(executions=executions, is_start=False):
            return NoteText("link", f"Continued as execution {executions + 1}")
        case events.RunContinuedEvent(executions=executions):
            return NoteText(
                "link", f"The beginning is missing: Temporal deleted {executions} earlier executions"
            )
        case events.ApprovalGivenEvent(text=text, by=by, confirmation=call):
            count = f"Approval {len(call.given)} of {call.approvals_needed}"
            return NoteText("note", count, text or "", by or "")
        case events.ApprovalEscalatedEvent(confirmation=call):
            to = f" to {' or '.join(call.escalate_to)}" if call.escalate_to else ""
            return NoteText("note", f"Escalated{to}")
        case events.InterimAnswerEvent(error=error):
            title = "Not answered while calls wait" if error else "Answered while calls wait"
            return NoteText("note", title, str(error) if error else "")
        case events.AwaitAnsweredEvent(text=text, by=by):
            return NoteText("note", describe_verdict(event).capitalize(), text or "", by or "")
        case _:
            return NoteText("note", event.type.replace("_", " ").capitalize())


def end_look(end: End) -> str:
    """Return the status that pages show, `gave_up` if a limit ended the run."""
    is_stopped = end.output is not None and end.output.reason not in ("answered", "closed")
    return "gave_up" if end.status == "completed" and is_stopped else end.status


def end_title(end: End) -> str:
    look = end_look(end)
    if end.is_of_turn:
        return f"Turn {end.turn_id} {'answered' if look == 'completed' else 'gave up' if look == 'gave_up' else 'failed'}"
    return "Answered" if look == "completed" else look.replace("_", " ").capitalize()


def markdown_of(entry: Entry) -> list[str]:
    """Return the texts of an entry that its template renders as Markdown."""
    texts: tuple[str, ...] = ()
    match entry:
        case UserMessage(message=message):
            return markdown_of_message(message)
        case Plan():
            texts = entry.thinking, "" if entry.is_answer else entry.text
        case End(output=output) if output:
            texts = (output.text,)
        case _:
            pass
    return [lines_of(text, MOST_TEXT)[0] for text in texts if text]


def markdown_of_message(message: Message) -> list[str]:
    """Return the texts of a message that its template renders as Markdown."""
    texts = [part.text for part in message.parts if isinstance(part, TextPart | ThinkingPart)]
    return [lines_of(text, MOST_TEXT)[0] for text in texts if text]


MOST_CALL_TEXT = 4_000
"""Longest arguments, and longest result, of a call in a turn, in characters."""

MOST_CALLS = 60
"""Number of the last calls of a turn that a page has. The page of the run has all."""

_NOT_EXECUTED = ("canceled", "interrupted", "not_executed", "history_full")


def turns_before(found: Timeline) -> str:
    """Return the event before which there are earlier turns.

    Empty if the timeline has all turns.
    """
    return "" if found.has_start or not found.turns else found.turns[0].key


def newest_entries(turn: UserTurn) -> tuple[list[Entry], int]:
    """Return the entries of a turn to show, and the number of omitted first calls."""
    extra = left = max(sum(isinstance(entry, Call) for entry in turn.entries) - MOST_CALLS, 0)
    kept: list[Entry] = []
    for entry in turn.entries:
        if isinstance(entry, Call) and left:
            left -= 1
            continue
        kept.append(entry)
    return kept, extra + turn.dropped


def markdown_of_turn(turn: UserTurn) -> list[str]:
    """Return the texts of a turn that its template renders as Markdown."""
    answers = [lines_of(entry.text, MOST)[0] for entry in turn.entries if isinstance(entry, Plan)]
    return [*answers, *(pieces_of(turn.plan.draft.text) if turn.plan else ())]


@dataclass(frozen=True, slots=True)
class CallText:
    id: str
    name: str
    state: str
    """A state of `timeline.Call`, or `requested`."""
    arguments: str = ""
    """The beginning of the arguments, as JSON."""
    line: str = ""
    """The arguments on one line."""
    result: str = ""
    """The beginning of the result, as JSON or text."""
    is_cut: bool = False
    """Whether the arguments or the result are longer."""
    error: str = ""
    hint: str = ""
    """The planner's hint to repair the call."""
    progress: str = ""
    """Progress of a running call, or the reason for its retry."""
    took: timedelta | None = None
    run_id: str = ""
    """The child run that answers it."""
    artifacts: list[str] = field(default_factory=list[str])
    files: list[AttachmentRecord] = field(default_factory=list[AttachmentRecord])
    """The files that the call made."""


def request_text(request: ToolRequest, turn: UserTurn) -> CallText:
    arguments, is_whole = _arguments(request)
    state = "not_executed" if turn.is_over else "requested"
    line = _line(request.payload)
    return CallText(request.tool_call_id, request.name, state, arguments, line, is_cut=not is_whole)


def call_text(call: Call) -> CallText:
    arguments, is_whole = _arguments(call.call)
    result, is_all = _result(call)
    return CallText(
        call.id,
        call.call.name,
        "not_executed" if call.error and call.error.code in _NOT_EXECUTED else call.state,
        arguments,
        _line(call.call.payload),
        result,
        is_cut=not (is_whole and is_all),
        error=f"{'Outcome unknown: ' if call.doubt == 'unknown' else ''}{call.error}" if call.error else "",
        hint=_hint(call),
        progress=_progress(call),
        took=call.duration,
        run_id=call.child.run_id if call.child else "",
        artifacts=[
            one_line(each.kind or each.ref, 60) for each in call.artifacts[:10] if not each.attachment
        ],
        files=[each.attachment for each in call.artifacts if each.attachment],
    )


def _arguments(request: ToolRequest) -> tuple[str, bool]:
    given = request.payload or request.raw
    return json_beginning(given) if given else ("", True)


def _result(call: Call) -> tuple[str, bool]:
    result = call.result
    if result is None or result.error is not None:
        return "", True
    text, is_whole = json_beginning(result.result) if result.result is not None else ("", True)
    remarks, is_all = lines_of("\n".join(result.remarks), MOST_CALL_TEXT)
    return "\n".join(filter(None, (text, remarks))), is_whole and is_all


def _hint(call: Call) -> str:
    hint = call.hint
    return (hint.message or hint.clarifying_question or hint.reason.replace("_", " ")) if hint else ""


def _progress(call: Call) -> str:
    if call.result is not None:
        return ""
    if call.progress or call.done is not None:
        done = f"{call.done:g} of {call.total:g}" if call.done is not None and call.total else ""
        return ", ".join(filter(None, (one_line(call.progress), done)))
    if not call.attempts:
        return ""
    last = call.attempts[-1]
    return f"attempt {last.number}: {one_line(last.error)}" if last.error else f"attempt {last.number}"


def _line(payload: Mapping[str, Any]) -> str:
    known = [f"{name}: {_short(value)}" for name, value in list(payload.items())[:6]]
    return one_line(", ".join(known), 120)


def _short(value: Any) -> str:
    if isinstance(value, str):
        return value[:120]
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 120 else "…"


def outcome_of(entry: Call | WaitEntry) -> str:
    if entry.decision is None:
        turn = entry.turn
        return "closed with the turn" if turn and turn.end and turn.end.at == entry.closed_at else "closed"
    verdict = entry.decision.verdict
    return "expired without an answer" if verdict == "expired" else verdict.replace("_", " ")


def note_line(note: Note) -> str:
    """Return a note in one line, or an empty text if a talk does not show it."""
    match note.event:
        case PlannerNoteEvent(text=text):
            return text
        case events.MessageWithdrawnEvent():
            return "a queued message was withdrawn"
        case events.InterimAnswerEvent(error=error) if error:
            return "The message could not be answered yet. The agent reads it once the call is decided."
        case RunPausedEvent(text=text):
            return _with("paused", text)
        case RunResumedEvent(text=text):
            return _with("resumed", text)
        case events.RunQueuedEvent(text=text):
            return text
        case LimitReachedEvent(limit=limit) | RetriesStoppedEvent(limit=limit):
            return limit.message
        case MemoryChangedEvent(patch=patch):
            return f"Memory updated: {', '.join(one_line(name, 40) for name in list(patch)[:6])}"
        case _:
            return ""


def end_text(end: End) -> str:
    if end.status == "completed":
        return "closed"
    return _with(end.status.replace("_", " "), None if end.status == "timed_out" else end.text)


def _with(word: str, text: str | None) -> str:
    return f"{word}: {one_line(text)}" if text else word


@dataclass(frozen=True, slots=True)
class Facts:
    calls: int
    tokens: int
    cost: float | None
    model: str
    reason: str
    """Why it ended, unless it ended with its answer."""


def turn_facts(turn: UserTurn) -> Facts:
    """Return the work and usage of a turn.

    They come from its output, or from its events if it has none.
    """
    output, calls = turn.end.output if turn.end else None, _count(turn)
    if output is None:
        return Facts(calls, turn.spent.tokens, turn.spent.cost, turn.model, "")
    used = output.total_usage
    return Facts(
        max(output.children_count, output.tool_calls, calls),
        used.input_tokens + used.output_tokens,
        used.cost,
        used.model or turn.model,
        "" if output.reason == "answered" else output.reason,
    )


def _count(turn: UserTurn) -> int:
    calls = sum(isinstance(entry, Call) for entry in turn.entries)
    return calls + sum(len(entry.unstarted_calls) for entry in turn.entries if isinstance(entry, Plan))


_COMMON = set(BaseEvent.model_fields)


@dataclass(frozen=True, slots=True)
class EventRow:
    event_id: str
    at: datetime
    type: str
    line: str
    call_id: str


def event_row(event: Event) -> EventRow:
    call_id = str(getattr(event, "tool_call_id", "") or "")
    name = str(getattr(event, "tool_name", "") or "")
    return EventRow(
        event.event_id, event.time, event.type, one_line(f"{name} {_text_of(event)}".strip(), 300), call_id
    )


def _text_of(event: Event) -> str:
    if isinstance(event, RunStartedEvent | AssistantMessageEvent | MessageReceivedEvent):
        message = event.message
        if message is None or message.text:
            return message.text if message else ""
        return ", ".join(part.name for part in message.parts if isinstance(part, ToolCallPart))
    if isinstance(event, ToolStartEvent | AgentRunStartedEvent):
        return event.call.raw or line_of(event.call.payload, 160)
    if isinstance(event, ToolEndEvent | ToolResultReceivedEvent):
        return event.error.text if event.error else line_of(event.result.result, 160)
    fields = redact(event).model_dump(mode="json", exclude=_COMMON, exclude_defaults=True)
    fields.pop("type", None)
    only = next(iter(fields.values())) if len(fields) == 1 else None
    return only if isinstance(only, str) else line_of(only if isinstance(only, dict) else fields, 160)


def event_text(event: Event) -> str:
    """Return an event as `GET /v1/runs/{run_id}/events` has it."""
    return json_text(redact(event).model_dump(mode="json", exclude_defaults=True))

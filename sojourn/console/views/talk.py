"""Turns of a conversation in words, for the talk templates.

They have calls, outcomes, notes and figures.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sojourn.console.views.markdown import MOST, pieces_of
from sojourn.console.views.text import lines_of
from sojourn.contracts.event import (
    LimitReachedEvent,
    MemoryChangedEvent,
    PlannerNoteEvent,
    RetriesStoppedEvent,
    RunPausedEvent,
    RunResumedEvent,
)
from sojourn.contracts.tool_call import ToolRequest
from sojourn.timeline import Call, End, Entry, Note, Plan, Timeline, UserTurn, WaitEntry
from sojourn.values.visible import one_line

__all__ = [
    "MOST_CALLS",
    "CallText",
    "Facts",
    "call_text",
    "end_text",
    "json_text",
    "markdown_of",
    "newest_entries",
    "note_line",
    "outcome_of",
    "request_text",
    "turn_facts",
    "turns_before",
]

MOST_TEXT = 4_000
"""Longest arguments, and longest result, of a call in a turn, in characters."""

MOST_CALLS = 60
"""Number of the last calls of a turn that are shown. The page of the run has all."""

_NOT_EXECUTED = ("canceled", "interrupted", "not_executed", "history_full")


def json_text(value: Any, most: int = MOST_TEXT) -> tuple[str, bool]:
    """Return the beginning of a value as JSON, and whether that is all.

    A text is returned as it is.
    """
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)
    return lines_of(text, most)


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


def markdown_of(turn: UserTurn) -> list[str]:
    """Return the texts of a turn that its template renders as Markdown."""
    answers = [lines_of(entry.text, MOST)[0] for entry in turn.entries if isinstance(entry, Plan)]
    return [*answers, *(pieces_of(turn.plan.draft.text) if turn.plan else ())]


@dataclass(frozen=True, slots=True)
class CallText:
    """A call in words."""

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


def request_text(request: ToolRequest, turn: UserTurn) -> CallText:
    """Return the text of a call that has not begun."""
    arguments, is_whole = _arguments(request)
    state = "not_executed" if turn.is_over else "requested"
    line = _line(request.payload)
    return CallText(request.tool_call_id, request.name, state, arguments, line, is_cut=not is_whole)


def call_text(call: Call) -> CallText:
    """Return the text of a call that has begun."""
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
        artifacts=[one_line(each.kind or each.ref, 60) for each in call.artifacts[:10]],
    )


def _arguments(request: ToolRequest) -> tuple[str, bool]:
    given = request.payload or request.raw
    return json_text(given) if given else ("", True)


def _result(call: Call) -> tuple[str, bool]:
    result = call.result
    if result is None or result.error is not None:
        return "", True
    text, is_whole = json_text(result.result) if result.result is not None else ("", True)
    remarks, is_all = lines_of("\n".join(result.remarks), MOST_TEXT)
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
    """Return arguments on one line: `name: value, ...`."""
    known = [f"{name}: {_short(value)}" for name, value in list(payload.items())[:6]]
    return one_line(", ".join(known), 120)


def _short(value: Any) -> str:
    if isinstance(value, str):
        return value[:120]
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 120 else "…"


def outcome_of(entry: Call | WaitEntry) -> str:
    """Return the outcome of a wait, in words."""
    if entry.decision is None:
        turn = entry.turn
        return "closed with the turn" if turn and turn.end and turn.end.at == entry.closed_at else "closed"
    verdict = entry.decision.verdict
    return "nobody answered in time" if verdict == "expired" else verdict.replace("_", " ")


def note_line(note: Note) -> str:
    """Return a note in one line, or an empty text if a talk does not show it."""
    match note.event:
        case PlannerNoteEvent(text=text):
            return text
        case RunPausedEvent(text=text):
            return _with("paused", text)
        case RunResumedEvent(text=text):
            return _with("resumed", text)
        case LimitReachedEvent(limit=limit) | RetriesStoppedEvent(limit=limit):
            return limit.message
        case MemoryChangedEvent(patch=patch):
            return f"remembers: {', '.join(one_line(name, 40) for name in list(patch)[:6])}"
        case _:
            return ""


def end_text(end: End) -> str:
    """Return the text about the end of a conversation."""
    if end.status == "completed":
        return "closed"
    return _with(end.status.replace("_", " "), None if end.status == "timed_out" else end.text)


def _with(word: str, text: str | None) -> str:
    return f"{word}: {one_line(text)}" if text else word


@dataclass(frozen=True, slots=True)
class Facts:
    """Work and usage of a turn."""

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
    return calls + sum(len(entry.requested) for entry in turn.entries if isinstance(entry, Plan))

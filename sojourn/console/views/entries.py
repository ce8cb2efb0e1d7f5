"""Entries of a timeline, as the page of a run shows them.

It has their titles, the words of a note, and the texts that are Markdown.
"""

from typing import Any, NamedTuple

from sojourn.console.views.text import lines_of
from sojourn.contracts import event as events
from sojourn.contracts.message import Message, TextPart, ThinkingPart
from sojourn.timeline import End, Entry, Note, Plan, UserMessage, verdict_of

__all__ = ["MOST_TEXT", "NoteText", "end_title", "markdown_of", "markdown_of_message", "note_text"]

MOST_TEXT = 6_000
"""Longest text of an entry on a page, in characters."""


class NoteText(NamedTuple):
    """A note in words."""

    icon: str
    """Its name in `icons.html`."""
    title: str
    text: str = ""
    by: str = ""
    value: Any = None
    """Data to unfold."""


def note_text(note: Note) -> NoteText:
    """Return a note in words."""
    match note.event:
        case events.RunStartedEvent(forked_from=origin) if origin:
            changes = "\n".join(f"It was given the {text}" for text in origin.change_texts)
            title = f"Forked from {origin.run_id} at {origin.event_id}"
            return NoteText("fork", title, changes, origin.forked_by or "")
        case events.PlannerNoteEvent(text=text, by=by):
            return NoteText("note", "Note", text, by or "")
        case events.PolicyDecisionEvent(decision=decision):
            changes = decision.model_dump(mode="json", exclude_defaults=True, exclude={"reason"})
            return NoteText("policy", "The policy changed", decision.reason or "", value=changes)
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
            return NoteText("stuck", "A limit is reached", limit.message)
        case events.RetriesStoppedEvent(limit=limit):
            return NoteText("stuck", "A safeguard stopped the retries", limit.message)
        case events.RunContinuedEvent(executions=executions, is_start=False):
            return NoteText("link", f"Goes on in execution {executions + 1}")
        case events.RunContinuedEvent(executions=executions):
            return NoteText(
                "link", f"The beginning is gone: Temporal has deleted {executions} earlier executions"
            )
        case events.AwaitAnsweredEvent(text=text, by=by):
            return NoteText("note", verdict_of(event).replace("_", " ").capitalize(), text or "", by or "")
        case _:
            return NoteText("note", event.type.replace("_", " ").capitalize())


def end_title(end: End) -> str:
    """Return the end of a run or a turn, as a title."""
    if end.is_of_turn:
        return f"Turn {end.turn_id} {'is answered' if end.status == 'completed' else 'failed'}"
    return "Answered" if end.status == "completed" else end.status.replace("_", " ").capitalize()


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

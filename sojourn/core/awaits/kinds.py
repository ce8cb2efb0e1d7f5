"""The kinds of waits, a row each: all that tells one kind from another stands in its row and in its own file."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sojourn.contracts.awaits import Await, AwaitClarification, AwaitConfirmation, AwaitExternalTools
from sojourn.contracts.event import (
    AwaitClarificationEvent,
    AwaitConfirmationEvent,
    AwaitExternalToolsEvent,
    BaseEvent,
)
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.awaits.clarification import (
    CLARIFICATION,
    Clarified,
    read_clarification,
    sample_clarification,
    shown_clarification,
)
from sojourn.core.awaits.confirmation import (
    CONFIRMATION,
    Decided,
    decided_against,
    read_confirmation,
    sample_confirmation,
    shown_confirmation,
)
from sojourn.core.awaits.external_tools import (
    TOOL_RESULTS,
    Supplied,
    not_supplied,
    read_results,
    sample_results,
    shown_results,
)
from sojourn.core.awaits.sent import Door, Refused, as_json, by_of, digest

__all__ = [
    "Answer",
    "WaitKind",
    "digest_sent",
    "kind_named",
    "kind_of",
    "read",
    "shown",
    "wait_in",
]

Answer = Clarified | Decided | Supplied

OpenedEvent = type[AwaitClarificationEvent | AwaitConfirmationEvent | AwaitExternalToolsEvent]


@dataclass(frozen=True, slots=True)
class WaitKind:
    """What one kind of wait is answered by, told by and ended by."""

    name: str
    """Of the update and the signal that answer it."""
    form: str
    """What is sent, for whoever sent something else."""
    read: Callable[[Any, dict[str, Any], str | None, Door], Answer | Refused]
    """Judges what was sent, by its fields, who sent it and how it came."""
    event: OpenedEvent
    """The event that tells that it was opened."""
    field: str
    """The event's field that holds the wait."""
    shown: Callable[[str, Any], str]
    """The wait of a run, by its id, on Temporal's screens, in Markdown."""
    sample: Callable[[Any], dict[str, Any]]
    """An answer to the wait, in which what is in capitals is to be replaced."""
    calls: Callable[[Any], list[str]]
    """Under which keys the calls that wait for it are known: its own id for a call that has not begun, else the call's."""
    expired: Callable[[ToolRequest], ToolResult] | None = None
    """The answer of a call that waited for it in vain; None where a planner or a tool goes on without an answer."""


KINDS: Mapping[type[Await], WaitKind] = {
    AwaitClarification: WaitKind(
        name=CLARIFICATION,
        form='{"id": "...", "answer": "text"}',
        read=read_clarification,
        event=AwaitClarificationEvent,
        field="question",
        shown=shown_clarification,
        sample=sample_clarification,
        calls=lambda _wait: [],
    ),
    AwaitConfirmation: WaitKind(
        name=CONFIRMATION,
        form='{"id": "...", "approved": true, "payload_digest": "..."}',
        read=read_confirmation,
        event=AwaitConfirmationEvent,
        field="confirmation",
        shown=shown_confirmation,
        sample=sample_confirmation,
        calls=lambda wait: [wait.id],
        expired=lambda call: decided_against(call, None),
    ),
    AwaitExternalTools: WaitKind(
        name=TOOL_RESULTS,
        form='{"id": "...", "results": [{"tool_call_id": "...", "result": ...}]}',
        read=read_results,
        event=AwaitExternalToolsEvent,
        field="external",
        shown=shown_results,
        sample=sample_results,
        calls=lambda wait: [item.tool_call_id for item in wait.items],
        expired=not_supplied,
    ),
}


def kind_of(wait: Await) -> WaitKind:
    """The row of a wait."""
    return KINDS[type(wait)]


def kind_named(name: str) -> WaitKind | None:
    """The row of the kind that this update or signal answers."""
    return next((kind for kind in KINDS.values() if kind.name == name), None)


def wait_in(event: BaseEvent) -> Await | None:
    """The wait that an event tells of; None where it tells of none."""
    kind = next((kind for kind in KINDS.values() if isinstance(event, kind.event)), None)
    return kind and getattr(event, kind.field)


def read(wait: Await, fields: dict[str, Any], door: Door = "signal") -> Answer | Refused:
    """Judge what was sent in answer to an open wait."""
    by = by_of(fields)
    if isinstance(by, Refused):
        return by
    try:
        return kind_of(wait).read(wait, fields, by, door)
    except (ValueError, RecursionError, OverflowError):  # such as a number of 5,000 digits
        return Refused(f"the answer to {wait.id} cannot be written as JSON")


def shown(run_id: str, wait: Await) -> str:
    """A wait on Temporal's screens, with the commands that answer it."""
    return kind_of(wait).shown(run_id, wait)


def digest_sent(fields: dict[str, Any]) -> str:
    """The digest of what was sent, as far as it is an answer at all, to tell whether it repeats one."""
    try:
        if "approved" in fields:
            return digest([fields["approved"], fields.get("scope") or "call"])
        declined, answer = fields.get("declined") is True, fields.get("answer")
        text = answer if isinstance(answer, str) else as_json(answer)
        return digest([declined, "" if declined else text])
    except (ValueError, RecursionError, OverflowError):
        return "no answer"

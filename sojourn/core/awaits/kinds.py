"""The kinds of waits, one row each: how a kind is answered, shown and expired."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sojourn.contracts.awaits import (
    Await,
    AwaitClarification,
    AwaitConfirmation,
    AwaitExternalTools,
    KindName,
)
from sojourn.contracts.event import (
    AwaitClarificationEvent,
    AwaitConfirmationEvent,
    AwaitExternalToolsEvent,
)
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.wire_names import (
    PROVIDE_CLARIFICATION,
    PROVIDE_CONFIRMATION,
    PROVIDE_TOOL_RESULTS,
    RESUME,
)
from sojourn.core.awaits.clarification import (
    Clarified,
    format_clarification,
    read_clarification,
    sample_clarification,
)
from sojourn.core.awaits.confirmation import (
    Decided,
    deny_by_decision,
    format_confirmation,
    read_confirmation,
    sample_confirmation,
)
from sojourn.core.awaits.disclosure import fence_signal
from sojourn.core.awaits.envelope import Channel, Refused, answer_digest, read_sender, write_json
from sojourn.core.awaits.external_tools import (
    Supplied,
    format_external_calls,
    missing_result,
    read_results,
    sample_results,
)
from sojourn.values.visible import fence

__all__ = [
    "Answer",
    "Details",
    "WaitKind",
    "facts_of",
    "format_wait",
    "kind_named",
    "kind_of",
    "read_answer",
    "sent_digest",
    "sent_kind",
]

Answer = Clarified | Decided | Supplied

OpenedEvent = type[AwaitClarificationEvent | AwaitConfirmationEvent | AwaitExternalToolsEvent]


@dataclass(frozen=True, slots=True)
class WaitKind:
    name: str
    """Name of the update and the signal that answer it."""
    form: str
    """The format of an answer, for a refusal."""
    read: Callable[[Any, dict[str, Any], str | None, Channel], Answer | Refused]
    event: OpenedEvent
    field: str
    """The event's field that holds the wait."""
    shown: Callable[[str, Any], str]
    """Formats the wait for Temporal's screens, in Markdown; takes the run id and the wait."""
    sample: Callable[[Any], dict[str, Any]]
    """Makes a sample answer, with placeholders in capitals."""
    calls: Callable[[Any], list[str]]
    """The keys of the calls that wait.

    A key is the wait's id for a call that has not begun, else the call's id.
    """
    digest: Callable[[Any], str] = lambda _wait: ""
    """The digest that an answer has to name; empty for a kind whose answers name none."""
    expired: Callable[[ToolRequest], ToolResult] | None = None
    """The result of a call whose wait expired.

    None if a planner or a tool continues without an answer.
    """


KINDS: Mapping[type[Await], WaitKind] = {
    AwaitClarification: WaitKind(
        name=PROVIDE_CLARIFICATION,
        form='{"id": "...", "answer": "text"}',
        read=read_clarification,
        event=AwaitClarificationEvent,
        field="question",
        shown=format_clarification,
        sample=sample_clarification,
        calls=lambda _wait: [],
    ),
    AwaitConfirmation: WaitKind(
        name=PROVIDE_CONFIRMATION,
        form='{"id": "...", "approved": true, "payload_digest": "..."}',
        read=read_confirmation,
        event=AwaitConfirmationEvent,
        field="confirmation",
        shown=format_confirmation,
        sample=sample_confirmation,
        calls=lambda wait: [wait.id],
        digest=lambda wait: wait.payload_digest,
        expired=lambda call: deny_by_decision(call, None),
    ),
    AwaitExternalTools: WaitKind(
        name=PROVIDE_TOOL_RESULTS,
        form='{"id": "...", "results": [{"tool_call_id": "...", "result": ...}]}',
        read=read_results,
        event=AwaitExternalToolsEvent,
        field="external",
        shown=format_external_calls,
        sample=sample_results,
        calls=lambda wait: [item.tool_call_id for item in wait.items],
        expired=missing_result,
    ),
}


def kind_of(wait: Await) -> WaitKind:
    return KINDS[type(wait)]


def kind_named(name: str) -> WaitKind | None:
    return next((kind for kind in KINDS.values() if kind.name == name), None)


def facts_of(wait: Await) -> dict[str, str]:
    """Return the id, the kind and the digest of a wait.

    They explain to a sender why the run refuses its answer.
    """
    return {"await_id": wait.id, "kind": wait.kind, "digest": kind_of(wait).digest(wait)}


def sent_kind(fields: Mapping[str, Any]) -> KindName:
    """Return the kind of wait that a message answers, by its fields."""
    return "approval" if "approved" in fields else "tool_results" if "results" in fields else "question"


def read_answer(wait: Await, fields: dict[str, Any], channel: Channel = "signal") -> Answer | Refused:
    by = read_sender(fields)
    if isinstance(by, Refused):
        return by
    try:
        return kind_of(wait).read(wait, fields, by, channel)
    except (ValueError, RecursionError, OverflowError):  # such as a number of 5,000 digits
        return Refused(f"the answer to {wait.id} cannot be written as JSON")


def format_wait(run_id: str, wait: Await) -> str:
    """Return a wait in Markdown for Temporal's screens, with its answer commands."""
    return kind_of(wait).shown(run_id, wait)


def sent_digest(fields: dict[str, Any]) -> str:
    """Return the digest of a message that may be an answer, to recognise a repetition."""
    try:
        if "approved" in fields:
            return answer_digest([fields["approved"], fields.get("scope") or "call"])
        declined, answer = fields.get("declined") is True, fields.get("answer")
        text = answer if isinstance(answer, str) else write_json(answer)
        return answer_digest([declined, "" if declined else text])
    except (ValueError, RecursionError, OverflowError):
        return "no answer"


MAX_SHOWN = 10


class Details:
    """The current details of a run, in Markdown.

    The text of each wait is cached.
    """

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._texts: dict[str, str] = {}

    def of(self, waits: Mapping[str, Await], paused: str | None = None) -> str:
        """Format the open waits, with the commands that answer them.

        The texts are fenced because they come from outside.
        """
        parts: list[str] = []
        if paused is not None:
            reason = [fence(paused)] if paused else []
            parts += ["**Paused.**", *reason, fence_signal(self._run_id, RESUME, {"by": "YOUR NAME"})]
        first = list(islice(waits.values(), MAX_SHOWN))
        self._texts = {wait.id: self._texts.get(wait.id) or format_wait(self._run_id, wait) for wait in first}
        parts += self._texts.values()
        if len(waits) > MAX_SHOWN:
            parts.append(f"... and {len(waits) - MAX_SHOWN} more.")
        return "\n\n".join(parts)

"""The kinds of waits, one row each: how a kind is answered, shown and expired."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

from sojourn.contracts.awaits import (
    Await,
    AwaitClarification,
    AwaitConfirmation,
    AwaitExternalTools,
)
from sojourn.contracts.event import (
    AwaitClarificationEvent,
    AwaitConfirmationEvent,
    AwaitExternalToolsEvent,
    WaitOpenedEvent,
)
from sojourn.contracts.principal import Principal
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
    clarification_digest,
    format_clarification,
    read_clarification,
    sample_clarification,
)
from sojourn.core.awaits.confirmation import (
    DECISION,
    Decided,
    confirmation_digest,
    deny_by_decision,
    format_confirmation,
    read_confirmation,
    sample_confirmation,
)
from sojourn.core.awaits.disclosure import fence_signal
from sojourn.core.awaits.envelope import Channel, Rejection, read_sender
from sojourn.core.awaits.external_tools import (
    Supplied,
    format_external_calls,
    missing_result,
    read_results,
    sample_results,
)
from sojourn.core.awaits.principals import PRINCIPAL, is_same, principal_of
from sojourn.values.visible import fence

__all__ = [
    "KINDS",
    "KINDS_BY_NAME",
    "Answer",
    "Details",
    "PlannerAnswer",
    "WaitKind",
    "digest_of_answer",
    "facts_of",
    "format_wait",
    "is_repetition",
    "kind_of",
    "read_answer",
]

Answer = Clarified | Decided | Supplied

PlannerAnswer: TypeAlias = Clarified
"""An answer to a planner's question. One of a kind that is added joins here with `|`."""

NO_ANSWER = "no answer"
"""The digest of a message that repeats no answer."""


@dataclass(frozen=True, slots=True)
class WaitKind:
    record: type[Await]
    name: str
    """Name of the update and the signal that answer it."""
    form: str
    """The format of an answer, for a refusal."""
    fields: tuple[str, ...]
    """The fields of an answer. An update with another one is refused."""
    read: Callable[[Any, dict[str, Any], str | None, Channel], Answer | Rejection]
    repetition: Callable[[dict[str, Any]], str]
    """Returns the digest that a message has as an answer, which is `Answer.digest` for a repetition."""
    given: Callable[[Any], dict[str, Any]] | None
    """Makes the fields of an answer from a text or values by field; None for a kind that no planner asks for."""
    event: type[WaitOpenedEvent]
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
    digest: Callable[[Any], str]
    """The digest that an answer has to name; empty for a kind whose answers name none."""
    expired: Callable[[ToolRequest], ToolResult] | None
    """The result of a call whose wait expired.

    None if a planner or a tool continues without an answer.
    """


_ROWS = (
    WaitKind(
        record=AwaitClarification,
        name=PROVIDE_CLARIFICATION,
        form='{"id": "...", "answer": "text"}',
        fields=("id", "answer", "by", "declined", "reason", PRINCIPAL),
        read=read_clarification,
        repetition=clarification_digest,
        given=lambda answer: {"answer": answer},
        event=AwaitClarificationEvent,
        field="question",
        shown=format_clarification,
        sample=sample_clarification,
        calls=lambda _wait: [],
        digest=lambda _wait: "",
        expired=None,
    ),
    WaitKind(
        record=AwaitConfirmation,
        name=PROVIDE_CONFIRMATION,
        form='{"id": "...", "approved": true, "payload_digest": "..."}',
        fields=DECISION,
        read=read_confirmation,
        repetition=confirmation_digest,
        given=None,
        event=AwaitConfirmationEvent,
        field="confirmation",
        shown=format_confirmation,
        sample=sample_confirmation,
        calls=lambda wait: [wait.id],
        digest=lambda wait: wait.payload_digest,
        expired=lambda call: deny_by_decision(call, None),
    ),
    WaitKind(
        record=AwaitExternalTools,
        name=PROVIDE_TOOL_RESULTS,
        form='{"id": "...", "results": [{"tool_call_id": "...", "result": ...}]}',
        fields=("id", "results", "by", PRINCIPAL),
        read=read_results,
        repetition=lambda _fields: NO_ANSWER,  # results are compared call by call
        given=None,
        event=AwaitExternalToolsEvent,
        field="external",
        shown=format_external_calls,
        sample=sample_results,
        calls=lambda wait: [item.tool_call_id for item in wait.items],
        digest=lambda _wait: "",
        expired=missing_result,
    ),
)

KINDS: Mapping[type[Await], WaitKind] = {row.record: row for row in _ROWS}
KINDS_BY_NAME: Mapping[str, WaitKind] = {row.name: row for row in _ROWS}


def kind_of(wait: Await) -> WaitKind:
    return KINDS[type(wait)]


def facts_of(wait: Await) -> dict[str, str]:
    """Return the id, the kind and the digest of a wait.

    They explain to a sender why the run refuses its answer.
    """
    return {"await_id": wait.id, "kind": wait.kind, "digest": kind_of(wait).digest(wait)}


def read_answer(wait: Await, fields: dict[str, Any], channel: Channel = "signal") -> Answer | Rejection:
    by = read_sender(fields)
    if isinstance(by, Rejection):
        return by
    try:
        return kind_of(wait).read(wait, fields, by, channel)
    except (ValueError, RecursionError, OverflowError):  # such as a number of 5,000 digits
        return Rejection(f"the answer to {wait.id} cannot be written as JSON")


def format_wait(run_id: str, wait: Await) -> str:
    """Return a wait in Markdown for Temporal's screens, with its answer commands."""
    return kind_of(wait).shown(run_id, wait)


def digest_of_answer(kind: WaitKind, fields: dict[str, Any]) -> str:
    """Return the digest of a message that may be an answer, to recognise a repetition."""
    try:
        return kind.repetition(fields)
    except (ValueError, RecursionError, OverflowError):
        return NO_ANSWER


def is_repetition(name: str, answer: dict[str, Any], first: dict[str, Any]) -> bool:
    """Return whether a message is the same answer, by the same principal."""
    kind, sender, known = KINDS_BY_NAME[name], principal_of(answer), principal_of(first)
    if isinstance(sender, Principal) and isinstance(known, Principal) and not is_same(sender, known):
        return False
    return digest_of_answer(kind, answer) == digest_of_answer(kind, first)


MAX_SHOWN = 10


class Details:
    """The current details of a run, in Markdown.

    The text of each wait is cached.
    """

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._texts: dict[str, tuple[Await, str]] = {}

    def of(self, waits: Mapping[str, Await], paused: str | None = None) -> str:
        """Format the open waits, with the commands that answer them.

        The texts are fenced because they come from outside.
        """
        parts: list[str] = []
        if paused is not None:
            reason = [fence(paused)] if paused else []
            parts += ["**Paused.**", *reason, fence_signal(self._run_id, RESUME, {"by": "YOUR NAME"})]
        first = list(islice(waits.values(), MAX_SHOWN))
        self._texts = {wait.id: (wait, self._text_of(wait)) for wait in first}
        parts += [text for _, text in self._texts.values()]
        if len(waits) > MAX_SHOWN:
            parts.append(f"... and {len(waits) - MAX_SHOWN} more.")
        return "\n\n".join(parts)

    def _text_of(self, wait: Await) -> str:
        known, text = self._texts.get(wait.id, (None, ""))
        return text if known is wait else format_wait(self._run_id, wait)

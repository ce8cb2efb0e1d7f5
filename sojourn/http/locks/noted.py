"""Noted: what is decided on behalf of a request, by whatever code decides it, for the request's line in the audit log."""

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Notes", "begin", "note", "note_settled", "only_calls"]


@dataclass(slots=True)
class Notes:
    """What was noted of one request."""

    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    """Fields of the line."""
    settled: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """The waits that were settled."""
    only_calls: bool = False
    """Whether the path is one of many calls, of which only those that are noted, or refused, are decisions."""

    @property
    def line(self) -> dict[str, Any]:
        """The fields, with what was settled: of several waits all but the first as `further`."""
        further = {"further": self.settled[1:]} if self.settled[1:] else {}
        return {**self.fields, **(self.settled[0] if self.settled else {}), **further}

    @property
    def is_decision(self) -> bool:
        """Whether a call that decides, or a refusal, was noted."""
        return not self.only_calls or not {"call", "code"}.isdisjoint(self.fields)


_notes: ContextVar[Notes | None] = ContextVar("sojourn.noted", default=None)


def begin(notes: Notes) -> None:
    """Let what is noted from here on, in tasks that are begun here too, be of this request."""
    _notes.set(notes)


def note(**fields: Any) -> None:
    """Add fields to the line of the request that is answered here, such as `run_id`, the `code` of a refusal, or the `call` of JSON-RPC that decides."""
    if (notes := _notes.get()) is not None:
        notes.fields.update(fields)


def note_settled(run_id: str, await_id: str, **decided: Any) -> None:
    """Note a wait that is settled on behalf of the request, of a call to approve with `approved` and the `digest` of what was shown."""
    told = {"run_id": run_id, "await_id": await_id, **decided}
    if (notes := _notes.get()) is not None and told not in notes.settled:
        notes.settled.append(told)


def only_calls() -> None:
    """Note that the request is a call of JSON-RPC, which is a decision only where that is noted; its line is written at its end."""
    if (notes := _notes.get()) is not None:
        notes.only_calls = True

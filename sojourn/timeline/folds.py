"""Fold calls of one tool in a row that went well, so that a long run has few rows.

A call that failed, waits, runs, was decided by a person, has a child run, an artifact or a failed call before it
stands by itself. So does a plan with a text, with its reasoning or with failed attempts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar, TypeAlias, cast

from sojourn.timeline.entries import Call, Entry, Plan

__all__ = ["FEWEST", "CallFold", "Row", "fold_calls"]

FEWEST = 3
"""Fewest calls that are folded."""


@dataclass(frozen=True, slots=True)
class CallFold:
    """Calls of one tool in a row that went well, with the plans between them."""

    kind: ClassVar[str] = "fold"
    entries: Sequence[Call | Plan]
    """In order; the first and the last one are calls."""
    version: int
    """Version of the timeline that changed one of its entries last."""

    @property
    def key(self) -> str:
        """The key of its first call, in whose place it stands."""
        return self.entries[0].key

    @property
    def born(self) -> int:
        return self.entries[0].born

    @property
    def at(self) -> datetime:
        return self.entries[0].at

    @property
    def event_id(self) -> str:
        return self.entries[0].event_id

    @property
    def last_event_id(self) -> str:
        return self.entries[-1].event_id

    @property
    def name(self) -> str:
        """The tool."""
        return self.calls[0].call.name

    @property
    def calls(self) -> list[Call]:
        return [entry for entry in self.entries if isinstance(entry, Call)]

    @property
    def plans(self) -> int:
        return len(self.entries) - len(self.calls)

    @property
    def took(self) -> timedelta:
        """Time from the start of the first call to the end of the last one."""
        return max(call.ended_at or call.at for call in self.calls) - self.at


Row: TypeAlias = Entry | CallFold


def fold_calls(entries: Iterable[Entry]) -> list[Row]:
    """Return the entries in order, with folds in place of calls that belong together."""
    rows: list[Row] = []
    chain: list[Call | Plan] = []
    for entry in entries:
        if _continues(chain, entry):
            chain.append(cast("Call | Plan", entry))
            continue
        rows += _fold(chain)
        chain = [entry] if isinstance(entry, Call) and _went_well(entry) else []
        if not chain:
            rows.append(entry)
    return rows + _fold(chain)


def _continues(chain: Sequence[Call | Plan], entry: Entry) -> bool:
    if not chain:
        return False
    if isinstance(entry, Plan):
        return _is_silent(entry)
    first = chain[0]
    return (
        isinstance(entry, Call)
        and isinstance(first, Call)
        and entry.call.name == first.call.name
        and _went_well(entry)
    )


def _fold(chain: Sequence[Call | Plan]) -> list[Row]:
    """Return a chain as a fold, and the plans after its last call."""
    last = max((at for at, entry in enumerate(chain) if isinstance(entry, Call)), default=-1)
    folded, rest = chain[: last + 1], chain[last + 1 :]
    if sum(isinstance(entry, Call) for entry in folded) < FEWEST:
        return list(chain)
    return [CallFold(folded, max(entry.version for entry in folded)), *rest]


def _went_well(call: Call) -> bool:
    is_plain = call.opened is None and call.child is None and not (call.artifacts or call.repairs)
    return is_plain and call.state == "done" and call.ended_at is not None


def _is_silent(plan: Plan) -> bool:
    is_over = not (plan.is_open or plan.is_answer)
    return is_over and not (plan.text or plan.thinking or plan.attempts)

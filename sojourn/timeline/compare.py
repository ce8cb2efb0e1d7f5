"""Compare what two runs did, such as a fork and its origin."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any

from sojourn.contracts.event import RunStartedEvent
from sojourn.contracts.ids import place_of
from sojourn.contracts.run import ForkedFrom
from sojourn.timeline.entries import Call, End, Entry, Note, Plan, UserMessage, WaitEntry

__all__ = ["EntryPair", "compare_entries", "entries_after_fork"]


@dataclass(frozen=True, slots=True)
class EntryPair:
    """An entry of each run, or of one of them."""

    first: Entry | None
    second: Entry | None
    is_equal: bool = False
    """Whether both did the same, with the same outcome."""


def compare_entries(first: Iterable[Entry], second: Iterable[Entry]) -> list[EntryPair]:
    """Pair the entries of two runs in their order, as many equal ones as possible.

    Times, costs and ids do not count. The start of a run is left out.
    """
    one, other = [_with_content(first), _with_content(second)]
    matcher = SequenceMatcher(None, [key for key, _ in one], [key for key, _ in other], autojunk=False)
    pairs: list[EntryPair] = []
    for kind, begin, end, other_begin, other_end in matcher.get_opcodes():
        left = [entry for _, entry in one[begin:end]]
        right = [entry for _, entry in other[other_begin:other_end]]
        pairs += [EntryPair(*pair, is_equal=kind == "equal") for pair in zip_longest(left, right)]
    return pairs


def entries_after_fork(origin: Iterable[Entry], fork: ForkedFrom) -> list[Entry]:
    """Return what the origin of a fork did in place of what the fork does.

    That is what came after the point of the fork, and a call that the fork carries out with other arguments, with its plan.
    """
    point = place_of(fork.event_id)
    changed = {change.tool_call_id for change in fork.changes if change.kind == "arguments"}

    def is_replaced(entry: Entry) -> bool:
        if isinstance(entry, Call):
            return entry.id in changed
        return isinstance(entry, Plan) and not changed.isdisjoint(entry.calls)

    return [entry for entry in origin if place_of(entry.event_id) > point or is_replaced(entry)]


def _with_content(entries: Iterable[Entry]) -> Sequence[tuple[str, Entry]]:
    return [
        (json.dumps(_content(entry), sort_keys=True, default=str), entry)
        for entry in entries
        if not (isinstance(entry, Note) and isinstance(entry.event, RunStartedEvent))
    ]


def _content(entry: Entry) -> list[Any]:
    """Return what counts of an entry."""
    match entry:
        case Call(call=call, state=state):
            outcome = entry.error.text if entry.error else entry.result and entry.result.result
            return ["call", call.name, call.payload or call.raw, state, outcome]
        case Plan(text=text, calls=calls):
            return ["plan", text, len(calls), entry.is_open]
        case UserMessage(message=message):
            return ["message", message.text]
        case WaitEntry(wait=wait, decision=decision):
            return ["wait", wait.kind, wait.summary, decision and [decision.verdict, decision.event.text]]
        case End(status=status, text=text):
            return ["end", status, entry.output.text if entry.output else text]
        case Note(event=event):
            return ["note", event.type]
        case _:
            return [entry.kind, entry.key]

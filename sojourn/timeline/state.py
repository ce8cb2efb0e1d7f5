"""What a timeline has so far, and how to read it.

The newest entries, the turns of a conversation with their branches, open waits, decisions and deliveries. `Timeline` says how each
event changes it.
"""

from collections import deque
from collections.abc import Mapping
from datetime import datetime
from itertools import islice
from typing import Any

from sojourn.contracts.event import Event, RunStartedEvent
from sojourn.contracts.ids import place_of
from sojourn.timeline.branches import TurnIndex, index_turns
from sojourn.timeline.entries import (
    Call,
    ChangeKind,
    Delivery,
    End,
    Entry,
    EntryChange,
    OpenWait,
    Plan,
    TokenUsage,
    UserMessage,
    UserTurn,
    WaitEnd,
    WaitEntry,
)

__all__ = ["MOST_ENTRIES", "TimelineState"]

MOST_ENTRIES = 400
"""Default for the number of entries that a timeline keeps."""


class TimelineState:
    """What the events of a run came to so far."""

    def __init__(  # noqa: PLR0915 - one statement an attribute
        self,
        run_id: str,
        most: int = MOST_ENTRIES,
        *,
        most_records: int | None = None,
        is_conversation: bool = False,
        memory: Mapping[str, Any] | None = None,
    ) -> None:
        self.run_id = run_id
        self.is_conversation = is_conversation
        self.version: int = 0
        """Grows with every event of the run."""
        self.last_event_id = self.cursor = ""
        """The cursor after the last event: its id, unless `feed` was given another one."""
        self.agent_id = ""
        self.begun_at: datetime | None = None
        """When the first event happened."""
        self.started: RunStartedEvent | None = None
        """The start of the run, if it was among the events."""
        self.dropped = 0
        """Entries that are no longer kept."""
        self.end: End | None = None
        """How the run ended."""
        self.is_over = False
        """Whether no event comes any more."""
        self.is_paused = False
        self.spent = TokenUsage()
        """Usage of the run's plans and calls, as far as the events contain it."""
        self.memory: Mapping[str, Any] = memory or {}
        self.turns: list[UserTurn] = []
        """The turns of a conversation in order, of all its branches; empty for other runs."""
        self.head: str | None = None
        """The point after which the next turn begins, as `UserTurn.follows`."""
        self.branches = 0
        """How often the conversation went on from an earlier point."""
        self.branched_in: int = 0
        """The version in which it did so last."""
        self.queued: dict[str, UserMessage] = {}
        """Messages that no turn has taken, by id."""
        self.taken: dict[str, str] = {}
        """By message id: the user turn that took it."""
        self.open_waits: dict[str, OpenWait] = {}
        """By the id of the wait, oldest first."""
        self._waiting: dict[str, Call | WaitEntry] = {}
        """The entries of the open waits."""
        self.decisions: deque[WaitEnd] = deque(maxlen=most if most_records is None else most_records)
        """Waits that were answered, in order."""
        self.delivered: dict[str, Delivery] = {}
        """The first accepted message or answer, by message id."""
        self.last_user_text: str | None = None
        """Text of the last user message that the planner got; None if its event is not here."""
        self.last_assistant_text = ""
        """The planner's last text."""
        self._most, self._most_records = most, most if most_records is None else most_records
        self._entries: deque[Entry] = deque()
        self._changes: list[EntryChange] = []
        self._calls: dict[str, Call] = {}
        self._plan: Plan | None = None
        self._plan_of: dict[str, Plan] = {}
        """By call id: the plan whose message has the call."""
        self._before = ""
        self._plans = 0
        self._failed: dict[str, Call] = {}
        """By tool, the last call that failed with a hint and was not repeated yet."""
        self._indexed: tuple[int, TurnIndex] | None = None
        """The branches in a version, until its turns change without an event."""

    # Read.

    @property
    def entries(self) -> list[Entry]:
        """The last entries, in order."""
        return list(self._entries)

    def last(self, most: int) -> list[Entry]:
        """Return the last entries."""
        return list(islice(self._entries, max(0, len(self._entries) - most), None))

    def changes_since(self, since: int) -> list[Entry]:
        """Return the entries that were added or changed after a version."""
        return [entry for entry in self._entries if entry.version > since]

    def call(self, call_id: str) -> Call | None:
        """Return the call with this id, if it is among the last entries."""
        return self._calls.get(call_id)

    def plan_of(self, call_id: str) -> Plan | None:
        """Return the plan whose message has this call, or None if it is not here."""
        return self._plan_of.get(call_id)

    def interim_plan(self, message_id: str) -> Plan | None:
        """Return the last plan that answers a message while approvals are open."""
        plans = (each for each in reversed(self._entries) if isinstance(each, Plan))
        return next((each for each in plans if each.interim_for == message_id != ""), None)

    def is_beside_turn(self, message_id: str) -> bool:
        """Check whether a message is answered beside the turn of an earlier one.

        If such a plan has no answer, the turn's next plan reads the message, which is then one of the turn.
        """
        is_read = False
        for plan in (each for each in reversed(self._entries) if isinstance(each, Plan)):
            if plan.interim_for == message_id != "":
                return plan.is_open or plan.message is not None or not is_read
            is_read = is_read or not plan.interim_for
        return False

    def joined_turn(self, message_id: str) -> UserTurn | None:
        """Return the turn that took a message last, if both are here."""
        sent = (each for each in reversed(self._entries) if isinstance(each, UserMessage))
        return next((each.turn for each in sent if each.message_id == message_id), None)

    @property
    def has_backoff(self) -> bool:
        """Whether a plan or a call waits for the time of its next attempt."""
        calls = [call for call in self._calls.values() if call.state == "running"]
        plans = [self._plan] if self._plan and self._plan.is_open else []
        return any(each.attempts and each.attempts[-1].due for each in (*plans, *calls))

    @property
    def plan(self) -> Plan | None:
        """The last plan."""
        return self._plan

    @property
    def calls(self) -> list[Call]:
        """The calls among the last entries, in order."""
        return [entry for entry in self._entries if isinstance(entry, Call)]

    @property
    def turn(self) -> UserTurn | None:
        """The turn under way in a conversation."""
        return self.turns[-1] if self.turns and not self.turns[-1].is_over else None

    @property
    def path(self) -> list[UserTurn]:
        """The turns of the branch that the conversation is in, in order."""
        if not self.branches:
            return self.turns
        ended_at = self._index.ended_at
        newest = self.turns[-1] if self.turns else None
        is_cut = newest is not None and newest.is_over and newest.end is None  # with its run
        last = self.turn or (newest if is_cut else ended_at.get(self.head or ""))
        return self.path_to(last, len(self.turns)) if last else []

    def path_to(self, turn: UserTurn, most: int) -> list[UserTurn]:
        """Return the last turns of the branch that ends with a turn, in order."""
        path, of = list[UserTurn](), turn
        while of is not None and len(path) < most:
            path.append(of)
            of = self._index.ended_at.get(of.follows or "")
        return path[::-1]

    def siblings(self, turn: UserTurn) -> list[UserTurn]:
        """Return the turns that began at the same point as a turn.

        They are in order, and the turn is one of them.
        """
        if turn.follows is None or not self.branches:
            return [turn]
        return list(self._index.begun_after[turn.follows])

    @property
    def alternatives(self) -> list[list[UserTurn]]:
        """The turns that began at one point, for each such point of the present branch."""
        return [turns for turn in self.path if len(turns := self.siblings(turn)) > 1]

    def tip(self, turn: UserTurn) -> str:
        """Return the event that ended the newest turn after a turn.

        It is empty while that turn is under way.
        """
        return self._index.tips[turn.key]

    @property
    def _index(self) -> TurnIndex:
        if self._indexed is None or self._indexed[0] != self.version:
            self._indexed = self.version, index_turns(self.turns)
        return self._indexed[1]

    @property
    def has_start(self) -> bool:
        """Whether the timeline has the beginning of the run."""
        return self.started is not None and not self.dropped

    # Drop and join parts.

    def keep_turns(self, most: int) -> None:
        """Drop all but the last turns, and a first turn without its beginning."""
        kept = {id(turn) for turn in (*self.turns[-most:], *self.path[-most:])}
        gone = [turn for turn in self.turns if id(turn) not in kept]
        self.turns[:] = [turn for turn in self.turns if id(turn) in kept]
        if len(self.turns) > 1 and not self.turns[0].has_start:
            gone.append(self.turns.pop(0))
        for entry in [entry for turn in gone for entry in turn.entries]:
            self._entries.remove(entry)
            self._forget(entry)
        self._indexed = None

    def prepend_turns(self, earlier: "TimelineState") -> None:
        """Take the turns of an earlier part of the same conversation."""
        first = self.turns[0] if self.turns else None
        before = [
            turn
            for turn in earlier.turns
            if first is None or (place_of(turn.key) < place_of(first.key) and turn.id != first.id)
        ]
        for turn in before:
            turn.version = turn.born = 0
        cut = next((turn for turn in earlier.turns if first and turn.id == first.id), None)
        if first is not None and first.follows is None:
            first.follows = cut.follows if cut else earlier.head
        self.head = earlier.head if self.head is None else self.head
        self.branches = max(self.branches, earlier.branches)
        self.turns[:0] = before
        self._entries.extendleft(entry for turn in reversed(before) for entry in reversed(turn.entries))
        self.started, self.dropped = earlier.started, earlier.dropped
        self._indexed = None

    # Entries, for the methods that take events.

    def _add(self, entry: Entry, turn: UserTurn | None) -> None:
        entry.version = entry.born = self.version
        self._entries.append(entry)
        self._changes.append(EntryChange(entry, "added"))
        if turn is not None:
            self._join(turn, entry)
        if len(self._entries) > self._most:
            self._forget(self._entries.popleft())

    def _forget(self, gone: Entry) -> None:
        self.dropped += 1
        if isinstance(gone, Call) and self._calls.get(gone.id) is gone:
            del self._calls[gone.id]
        if isinstance(gone, Plan):
            for part in gone.message.tool_calls if gone.message else ():
                self._plan_of.pop(part.tool_call_id, None)
        if isinstance(gone, UserMessage):
            self.queued.pop(gone.message_id, None)
        if (turn := gone.turn) is not None:
            turn.entries.remove(gone)
            turn.dropped += 1
            if turn.is_over and not turn.entries and turn in self.turns:
                self.turns.remove(turn)

    def _touch(self, entry: Entry, kind: ChangeKind = "changed") -> None:
        self._changes.append(EntryChange(entry, kind))
        entry.version = self.version
        if entry.turn is not None:
            entry.turn.version = self.version

    def _join(self, turn: UserTurn, entry: Entry) -> None:
        turn.entries.append(entry)
        entry.turn = turn
        turn.version = self.version

    def _turn(self, event: Event) -> UserTurn | None:
        """Return the turn under way, or else the last one."""
        last = self.turns[-1] if self.turns else None
        if last and (not last.is_over or not event.turn_id or last.id == event.turn_id):
            return last
        return None

    def _turn_at_work(self, event: Event) -> UserTurn | None:
        """Return the turn of an event. Events may begin in the middle of it."""
        turn = self._turn(event)
        if turn is None and self.is_conversation:
            turn = UserTurn(event.event_id, event.turn_id, event.time, self._before, born=self.version)
            turn.is_opened = turn.has_start = False
            turn.ids.add(event.turn_id)
            self.turns.append(turn)
        return turn

"""The timelines of a run and its child runs.

Their open waits, their decisions and their deliveries are merged.
"""

from collections import deque
from collections.abc import Sequence

from sojourn.contracts.event import (
    AgentRunStartedEvent,
    ApprovalGivenEvent,
    AwaitAnsweredEvent,
    Event,
    MessageReceivedEvent,
    RunStreamEndEvent,
    ToolEndEvent,
    ToolResultReceivedEvent,
)
from sojourn.timeline.entries import Delivery, EntryChange, OpenWait, WaitEnd, is_run_end, is_turn_end
from sojourn.timeline.state import MOST_ENTRIES
from sojourn.timeline.timeline import Timeline

__all__ = ["TimelineTree"]

MOST_RUNS = 500
"""Most child runs with a timeline. Those that ended are dropped first."""


class TimelineTree:
    """Grows with the events of a run and its child runs, in the order of their stream."""

    def __init__(
        self,
        run_id: str,
        most: int = MOST_ENTRIES,
        *,
        most_records: int | None = None,
        is_conversation: bool = False,
    ) -> None:
        self._most, self._most_records = most, most if most_records is None else most_records
        self.top = Timeline(run_id, most, most_records=most_records, is_conversation=is_conversation)
        self.runs: dict[str, Timeline] = {run_id: self.top}
        """By run id; the run at the top first."""
        self.parents: dict[str, tuple[str, str]] = {}
        """By child run: its parent run, and the call that it answers."""
        self.open_waits: dict[tuple[str, str], OpenWait] = {}
        """By run and wait, oldest first."""
        self.decisions: deque[WaitEnd] = deque(maxlen=self._most_records)
        """Waits that were answered, in order."""
        self.delivered: dict[str, Delivery] = {}
        """By message id: a message to the run at the top, or the answer to a wait of any run."""
        self.cursor = ""
        """The cursor after the last event."""

    def wait_opened_by(self, event: Event) -> OpenWait | None:
        """Return the wait that the last event opened, or None."""
        newest = next(reversed(self.open_waits.values()), None)
        is_by = newest and (newest.run_id, newest.event_id) == (event.run_id, event.event_id)
        return newest if is_by else None

    def feed(self, event: Event, cursor: str = "") -> Sequence[EntryChange]:
        """Take the next event, and return its changes of its run's entries, in order."""
        top = self.top.run_id
        if event.run_id != top and not event.run_id.startswith(f"{top}/"):
            return ()
        run = self._run(event.run_id)
        version, run.cursor = run.version, self.cursor
        changes = run.feed(event, cursor)
        if run.version == version:
            return ()
        self.cursor = run.cursor
        if isinstance(event, AgentRunStartedEvent):
            self.parents[event.run_link.run_id] = event.run_id, event.tool_call_id
        self._update_waits(run, event)
        if isinstance(event, AwaitAnsweredEvent) and run.decisions:
            self.decisions.append(run.decisions[-1])
        if isinstance(event, MessageReceivedEvent | AwaitAnsweredEvent | ApprovalGivenEvent):
            self._deliver(run, event)
        return changes

    def depth(self, run_id: str) -> int:
        """Return how many runs are above a run."""
        depth = 0
        while run_id in self.parents:
            run_id, depth = self.parents[run_id][0], depth + 1
        return depth

    def _deliver(
        self, run: Timeline, event: MessageReceivedEvent | AwaitAnsweredEvent | ApprovalGivenEvent
    ) -> None:
        delivery = run.delivered.get(event.message_id or "")
        if delivery is None or (run is not self.top and isinstance(event, MessageReceivedEvent)):
            return
        self.delivered.setdefault(event.message_id or "", delivery)
        while len(self.delivered) > self._most_records:
            del self.delivered[next(iter(self.delivered))]

    def _run(self, run_id: str) -> Timeline:
        if known := self.runs.get(run_id):
            return known
        self.runs[run_id] = Timeline(run_id, self._most, most_records=self._most_records)
        if len(self.runs) > MOST_RUNS + 1:
            below = list(self.runs.values())[1:-1]
            gone = next((each for each in below if each.is_over), below[0])
            del self.runs[gone.run_id]
            self.parents.pop(gone.run_id, None)
        return self.runs[run_id]

    def _update_waits(self, run: Timeline, event: Event) -> None:
        if isinstance(event, ToolEndEvent | ToolResultReceivedEvent):
            self._close_below(f"{event.run_id}/{event.tool_call_id}")
        elif is_turn_end(event) or is_run_end(event) or isinstance(event, RunStreamEndEvent):
            self._close_below(event.run_id)
        for key in [key for key in self.open_waits if key[0] == run.run_id and key[1] not in run.open_waits]:
            del self.open_waits[key]
        for await_id, opened in run.open_waits.items():
            key = (run.run_id, await_id)
            if self.open_waits.get(key) is not opened:
                self.open_waits.pop(key, None)
                self.open_waits[key] = opened

    def _close_below(self, run_id: str) -> None:
        for key in [key for key in self.open_waits if f"{key[0]}/".startswith(f"{run_id}/")]:
            del self.open_waits[key]

"""A run's timeline, fed live for its page."""

import time
from typing import ClassVar

from sojourn.client.stuck import Stuck, stuck_runs
from sojourn.console.present import may_be_stuck, present_run
from sojourn.console.shared_transcript import SharedTranscript
from sojourn.console.views.about_run import AboutRun
from sojourn.console.views.entries import markdown_of
from sojourn.console.views.event_rows import LatestRows, event_row
from sojourn.console.views.markdown import prepare
from sojourn.console.watching import Watched
from sojourn.contracts.event import Event
from sojourn.events import Cursor
from sojourn.events.cursor import MAX_OPEN
from sojourn.http.service import Service
from sojourn.timeline import MOST_ENTRIES, Timeline

__all__ = ["WatchedRun"]

LOOKS = 10.0
"""Seconds between two looks at whether a run goes on."""

_SILENT = ("agent_run_started", "memory_changed", "planner_note", "policy_decision", "tool_start", "usage")
"""Events that no message comes with."""


class WatchedRun(Watched):
    """A run that is watched for its timeline, and for what happens in child runs.

    Args:
        service: The service.
        run_id: The run.
    """

    CHILDREN: ClassVar[bool] = True
    LAST_WORD: ClassVar[str] = "the run has ended"

    def __init__(self, service: Service, run_id: str) -> None:
        super().__init__(service, run_id)
        self.timeline = Timeline(run_id)
        self.earlier = ""
        """Where the part of the run before the timeline ends; empty if the timeline begins with the run."""
        self.about = AboutRun()
        self.stuck: Stuck | None = None
        """Why it does not go on; None where it does."""
        self._looked_at = 0.0
        self.children: dict[str, int] = {}
        """By child run, the version of the timeline when something happened in it."""
        self.rows = LatestRows()
        """The events that have come since it was read."""
        self.transcript = SharedTranscript(service.client.get_run(run_id).transcript)
        """Its messages, for who reads along."""
        self.spoke = 0
        """The version of the timeline when a message may have come."""

    @property
    def told(self) -> Timeline:
        """The timeline."""
        return self.timeline

    @property
    def is_over(self) -> bool:
        """Whether the timeline has the end of the run."""
        return self.timeline.is_over

    async def load(self) -> None:
        """Read the run as it is now; raises as `present_run`."""
        found = await present_run(self._service, self.run_id, most=MOST_ENTRIES)
        self.timeline, self.earlier = found.timeline, found.earlier
        self.status, self.about = found.status, found.about
        self.rows = LatestRows(self.timeline.last_event_id)
        self.stuck, self._looked_at = found.stuck, time.monotonic()

    async def ask(self) -> None:
        """Read the status, and at times whether the run goes on."""
        await super().ask()
        if time.monotonic() - self._looked_at > LOOKS:
            self._looked_at, client = time.monotonic(), self._service.client
            found = await stuck_runs(client, [self.run_id]) if may_be_stuck(self.status) else {}
            if (stuck := found.get(self.run_id)) != self.stuck:
                self.stuck = stuck
                self.tell_change()

    async def prepare(self, since: int) -> None:
        """Render the texts of the entries that have changed since a version in a thread."""
        changed = self.timeline.changed(since) if since >= 0 else self.timeline.last(MOST_ENTRIES)
        await prepare(text for entry in changed for text in markdown_of(entry))

    def feed(self, event: Event) -> None:
        """Take the next event, of this run or of one below."""
        if event.run_id == self.run_id:
            self.timeline.feed(event)
            if event.event_id:
                self.rows.add(event_row(event), self.timeline.version)
                self.spoke = self.spoke if event.type in _SILENT else self.timeline.version
        else:
            self.timeline.version += 1
            self.children[event.run_id] = self.timeline.version

    def cursor(self) -> Cursor:
        """How far the timeline goes; child runs that are open are read from their beginning."""
        open_calls = [call for call in self.timeline.calls if call.child and call.result is None]
        below = [f"{call.child.run_id.removeprefix(self.run_id)}=" for call in open_calls if call.child]
        last = self.timeline.last_event_id
        return Cursor(self.run_id, after=f"{last};{';'.join(below[:MAX_OPEN])}" if last else None)

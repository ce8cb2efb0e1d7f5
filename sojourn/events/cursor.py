"""Encode how far a reader has read the events of a run and its child runs.

The text is the event_id of the run, then for each open child run its id and its event_id:
`0-000012-00000;/call_1=0-000003-00000;/call_2=`, and `0-000012-00000;` while none is open. A
child's id begins with the id of the run, which is left out. A child run that is not
listed, and started before the run's event, has ended, and all its events were read.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from sojourn.contracts.event import AgentRunStartedEvent, BaseEvent, ToolResultReceivedEvent
from sojourn.contracts.ids import EVENT_ID
from sojourn.core.run.ids import child_run_id, is_below

__all__ = ["MAX_OPEN", "Cursor", "Position", "position_of"]

MAX_OPEN = 1_000
"""Most open child runs in a cursor."""

MAX_CHARS = 256_000
"""Longest cursor that is read, in characters."""


_VISIBLE = re.compile(r"[!-~]{1,1000}\Z")
"""The id of a child run in a cursor.

Clients send cursors back in headers, URLs and frames of streams.
"""


class Position(NamedTuple):
    after: Mapping[str, str]
    """By run id."""
    is_whole: bool = False
    """Whether every open child run is in `after`, so that one that is not has been read to its end."""

    def of(self, run_id: str) -> str:
        return self.after.get(run_id, "")

    def below(self, event: AgentRunStartedEvent, *, is_new: bool) -> "Position | None":
        """Return the position in a child run, or None if all its events were read before."""
        run_id = event.run_link.run_id
        if not self.is_whole:
            return self
        if is_new:
            return Position({})
        return self if run_id in self.after else None


class Cursor:
    """A record of how far `run.events(children=True)` was read.

    Its text is a value for `after`, or for `Last-Event-ID`.

    ```python
    cursor = Cursor(run.id, after=last_event_id)
    async for event in run.events(after=str(cursor), children=True):
        print(f"id: {cursor.add(event)}")
    ```

    Args:
        run_id: The run to follow.
        after: The text of an earlier cursor of this run, or empty for the beginning.

    Raises:
        ValueError: `after` is not the text of a cursor.
    """

    def __init__(self, run_id: str, after: str | None = None) -> None:
        self._run_id = run_id
        self._after = dict(position_of(run_id, after or "").after)

    @property
    def position(self) -> Position:
        """The position after the last event read, with every open child run."""
        return Position(dict(self._after), is_whole=True)

    def add(self, event: BaseEvent) -> str:
        """Move past an event, and return the cursor's text.

        An event without an event_id moves nothing.
        """
        if event.event_id:
            self._after[event.run_id] = event.event_id
        if isinstance(event, AgentRunStartedEvent):
            child = event.run_link.run_id
            self._close(child)
            self._after[child] = ""
        elif isinstance(event, ToolResultReceivedEvent):
            self._close(child_run_id(event.run_id, event.tool_call_id))
        return str(self)

    def _close(self, child: str) -> None:
        for run_id in [each for each in self._after if each == child or each.startswith(f"{child}/")]:
            if run_id != self._run_id:
                del self._after[run_id]

    def __str__(self) -> str:
        """Return the text, in printable ASCII without spaces.

        Empty before the first event.
        """
        below = [
            f"{self._short(each)}={event_id}"
            for each, event_id in self._after.items()
            if each != self._run_id
        ]
        own = self._after.get(self._run_id)
        return f"{own};{';'.join(below)}" if own else ""

    def _short(self, child: str) -> str:
        own = f"{self._run_id}/"
        return child.removeprefix(self._run_id) if child.startswith(own) else child


def position_of(run_id: str, after: str | Mapping[str, str] | None) -> Position:
    """Return the position that a caller passes as `after`."""
    if after is None or isinstance(after, Mapping):
        for event_id in filter(None, (after or {}).values()):
            _check(event_id)
        return Position(after or {})
    if len(after) > MAX_CHARS or after.count(";") > MAX_OPEN:
        raise ValueError(f"the cursor is too long: it has at most {MAX_OPEN:,} open child runs")
    own, separator, below = after.partition(";")
    if after:
        _check(own)
    positions = {run_id: own}
    for entry in filter(None, below.split(";")):
        child, equals, event_id = entry.rpartition("=")
        if not (child and equals):
            raise ValueError(f"{entry[:100]!r} is no part of a cursor: one is as /call_1=0-000012-00000")
        if event_id:
            _check(event_id)
        whole = f"{run_id}{child}" if child.startswith("/") else child
        if not (_VISIBLE.match(child) and is_below(whole, run_id)):
            raise ValueError(f"{child[:100]!a} is no child run of {run_id}")
        positions[whole] = event_id
    return Position(positions, is_whole=bool(separator))


def _check(event_id: str) -> None:
    if not EVENT_ID.match(event_id):
        raise ValueError(
            f"{event_id[:100]!r} is no event_id: one is as 0-000012-00000, from an event of the run"
        )

"""Latest rows: the events of a run that have come since it is watched, as rows, the last ones."""

from collections import deque

from sojourn.console.views.event_rows import EventRow
from sojourn.contracts.ids import place_of

__all__ = ["MOST", "LatestRows"]

MOST = 600
"""Most rows that are kept."""


class LatestRows:
    """Grows with the events of a run.

    Args:
        begin: The last event before those that it gets; empty where there is none.
        most: Most rows that are kept.
    """

    def __init__(self, begin: str = "", most: int = MOST) -> None:
        self._begin = begin
        self._since = -1
        self._most = most
        self._rows: deque[tuple[int, EventRow]] = deque()

    def add(self, row: EventRow, version: int) -> None:
        """Add the next row.

        Args:
            row: The row.
            version: Of what is told of the run, when its event came.
        """
        self._rows.append((version, row))
        if len(self._rows) > self._most:
            self._since, gone = self._rows.popleft()
            self._begin = gone.event_id

    def since(self, version: int) -> list[EventRow] | None:
        """The rows that came after a version; None where some of them are kept no longer."""
        if version < self._since:
            return None
        return [row for came, row in self._rows if came > version]

    def after(self, event_id: str) -> list[EventRow] | None:
        """The rows after an event; None where some of them are kept no longer, or came before all that is kept."""
        place = place_of(event_id)
        if place < place_of(self._begin):
            return None
        return [row for _, row in self._rows if place_of(row.event_id) > place]

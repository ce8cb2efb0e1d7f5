"""How far the history of a run was read, and a cache for the next reader.

A program that holds a conversation continues the cached reading turn after turn.
"""

from collections.abc import AsyncIterator
from contextlib import nullcontext
from typing import Any

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHandle, WorkflowHistoryEventAsyncIterator

from sojourn.connection.rpc_errors import unreadable
from sojourn.contracts.event import Event
from sojourn.contracts.ids import place_in, place_of
from sojourn.core.history.fold import Fold
from sojourn.core.history.record import HistoryRecord
from sojourn.events.history import HistoryReader
from sojourn.serving.pace import Pace, fetching

__all__ = ["MAX_CHAIN", "Kept", "Reading"]

MAX_CHAIN = 1_000
"""Most executions of one run that are followed."""

FIRST_PAGE = 100
"""Events of the first page of a run, before their sizes are known."""

MOST_EVENTS = 1_000
"""Most events to ask for; the server gives fewer if its own limit is lower."""

FEWEST_EVENTS = 10

LARGE_PAGE = 250_000
"""Size of a page to aim for, in bytes.

After a page of this size, few readers fetch the next one at once. The server's own limit is 4 MB, which take 20 ms to receive and to
read.
"""


class Reading:
    """An execution and those that continue it, read up to some event."""

    def __init__(self, client: Client, fold: Fold, execution: str, *, follow: bool) -> None:
        self.fold = fold
        self.execution = execution
        self.is_whole = True
        """Whether every event taken from a page is in the fold."""
        self.place = ""
        """The place of the last record in the history."""
        self._client = client
        self.follow = follow
        self._reader = HistoryReader(client.data_converter)
        self._pages: WorkflowHistoryEventAsyncIterator | None = None
        self._page_bytes = 0
        """Bytes of the events taken from the present page."""
        self._page_size = FIRST_PAGE
        self._continued, self._last = "", ""

    def _pages_of(self, execution: str) -> WorkflowHistoryEventAsyncIterator:
        handle: WorkflowHandle[Any, Any] = self._client.get_workflow_handle(
            self.fold.run_id, run_id=execution
        )
        return handle.fetch_history_events(page_size=self._page_size, wait_new_event=self.follow)

    async def records(self) -> AsyncIterator[tuple[HistoryRecord, list[Event]]]:
        """Yield further records. After a cancellation, continue if it `is_whole`."""
        self._pages = self._pages or self._pages_of(self.execution)
        pace = Pace()
        for _ in range(MAX_CHAIN):
            while (history_event := await self._next(self._pages)) is not None:
                self.is_whole = False
                with pace:
                    record = await self._reader.record(history_event)
                    if self._reader.unreadable:
                        raise unreadable(self.fold.run_id, self._reader.unreadable)
                    events = self.fold.feed(record) if record else []
                self.is_whole = True
                if record is not None:
                    self.place = place_in(self.fold.chain, record.id)
                    self._continued = record.name if record.kind == "continued" else ""
                    self._last = record.kind
                    yield record, events
                await pace.rest()
            if self._reader.opening_unreadable and self._last != "run_failed":
                raise unreadable(self.fold.run_id, self._reader.opening_unreadable)
            if not self._continued:
                return
            self._pages = self._pages_of(self._continued)
            self._continued, self._last = "", ""

    async def _next(self, pages: WorkflowHistoryEventAsyncIterator) -> HistoryEvent | None:
        """Return the next event of an execution, or None after its last one.

        The page size is estimated from the size of the events before. After a large page, few readers fetch the next one
        at once, because all readers share the connection and the server.
        """
        page = pages.current_page
        if page and pages.current_page_index >= len(page):
            is_large = self._page_bytes >= LARGE_PAGE
            fitting = LARGE_PAGE * len(page) // max(self._page_bytes, 1)
            self._page_size = min(max(fitting, FEWEST_EVENTS), MOST_EVENTS)
            if pages.next_page_token:
                async with fetching() if is_large else nullcontext():
                    await pages.fetch_next_page(page_size=self._page_size)
            self._page_bytes = 0
        event = await anext(pages, None)
        if event is not None:
            self._page_bytes += event.ByteSize()
        return event


class Kept:
    """A cache for the reading of a conversation between two turns."""

    def __init__(self) -> None:
        self._reading: Reading | None = None

    def take(self, after: str) -> Reading | None:
        """Remove and return the cached reading if it goes no further than this place."""
        reading = self._reading
        if reading is None or place_of(reading.place) > place_of(after):
            return None
        self._reading = None
        return reading

    def put(self, reading: Reading) -> None:
        if reading.is_whole and reading.place and reading.fold.state.is_idle:
            self._reading = reading

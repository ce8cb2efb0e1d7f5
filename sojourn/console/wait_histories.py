"""Read the steps before a wait, and its end, from the history of its run."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from temporalio.service import RPCError

from sojourn.client.listing import message_of
from sojourn.console.views.wait_history import WaitHistory, before_wait
from sojourn.contracts.event import AwaitAnsweredEvent, Event
from sojourn.http.service import Service
from sojourn.reader import Cache, present_events
from sojourn.timeline import Timeline

__all__ = ["WaitHistories"]

MAX_EVENTS = 100_000
"""Most events of a run that are looked through for a wait that is no longer open."""

MAX_KNOWN = 500
"""Most waits whose history is cached."""


class WaitHistories:
    """Reads and caches the histories of waits.

    Args:
        service: The service.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._known: Cache[tuple[str, str, bool], WaitHistory] = Cache(MAX_KNOWN)

    async def of(self, run_id: str, await_id: str, *, is_open: bool) -> WaitHistory:
        """Return the history of a wait.

        If the wait is not open, the history is read from as far back as the run's history or the archive
        reaches.

        Raises:
            RunNotFound: There is no such run.
            RunUnreadable: The run's records cannot be decoded here.
            ServerUnavailable: The server does not answer.
        """
        key = run_id, await_id, is_open
        known = await self._known.get(key, lambda: self._read(run_id, await_id))
        if known.wait is None or not (is_open or known.answered):
            self._known.discard(key)  # it has not ended yet
        return known

    async def _read(self, run_id: str, await_id: str) -> WaitHistory:
        client = self._service.client
        found = await _in_events(present_events(client, run_id), run_id, await_id)
        if found.wait is None:
            found = await _in_events(client.get_run(run_id).events(follow=False), run_id, await_id)
        root = run_id.partition("/")[0]
        if root != run_id:
            found.for_whom = await self._asked(root)
        return found

    async def _asked(self, run_id: str) -> str:
        try:
            return await message_of(
                await self._service.client.temporal.get_workflow_handle(run_id).describe()
            )
        except RPCError:
            return ""  # deleted or unreachable: the page works without it


async def _in_events(events: AsyncGenerator[Event], run_id: str, await_id: str) -> WaitHistory:
    timeline, found, left = Timeline(run_id), WaitHistory(), MAX_EVENTS
    async with aclosing(events) as read:
        async for event in read:
            timeline.feed(event)
            opened = timeline.open_waits.get(await_id)
            if opened is not None and opened.event_id == event.event_id:
                found = before_wait(timeline, opened)
            if isinstance(event, AwaitAnsweredEvent) and event.await_id == await_id:
                found.answered = event
            if (left := left - 1) < 0:
                break
    return found

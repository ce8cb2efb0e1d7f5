"""One stream of a run's events, with those of its child runs and the live ones."""

import asyncio
from collections.abc import AsyncGenerator

from temporalio.client import Client
from temporalio.converter import StorageDriver

from sojourn.contracts.event import AgentRunStartedEvent, Event, ToolResultReceivedEvent
from sojourn.contracts.ids import place_of
from sojourn.core.history.fold import END
from sojourn.errors import RunNotFound, SojournError
from sojourn.events.cursor import Position
from sojourn.events.live_text import LiveText
from sojourn.events.one_run import events_of
from sojourn.events.pending import PendingActivities
from sojourn.events.reading import Kept
from sojourn.live import LiveTransport
from sojourn.live.transport import topic_of

__all__ = ["MAX_WAITING", "stream"]

MAX_WAITING = 256
"""Most events read ahead of the subscriber."""


async def stream(
    client: Client,
    run_id: str,
    *,
    after: Position,
    follow: bool,
    children: bool,
    live: LiveTransport | None = None,
    storage: StorageDriver | None = None,
    since: str = "",
    kept: Kept | None = None,
) -> AsyncGenerator[Event]:
    """Yield the events of a run, as `Run.events` does.

    With `since`, they begin with the execution of this place. `kept` is a cache with the reading to continue.
    """
    queue: asyncio.Queue[Event | BaseException | None] = asyncio.Queue(MAX_WAITING)
    source = _Source(
        client, run_id, queue, after, children=children, live=live, storage=storage, since=since, kept=kept
    )

    async def fill_queue() -> None:
        try:
            await source.queue_events(follow=follow)
            await queue.put(None)
        except Exception as error:  # noqa: BLE001 - raised when the events are read
            await queue.put(error)

    task = asyncio.create_task(fill_queue(), name=f"events of {run_id}")
    try:
        while (event := await queue.get()) is not None:
            if isinstance(event, BaseException):
                raise event
            yield event
    finally:
        await _has_ended(task)
        await source.close()


class _Source:
    def __init__(
        self,
        client: Client,
        run_id: str,
        queue: "asyncio.Queue[Event | BaseException | None]",
        after: Position,
        *,
        children: bool,
        live: LiveTransport | None,
        storage: StorageDriver | None,
        is_root: bool = True,
        since: str = "",
        kept: Kept | None = None,
    ) -> None:
        self._client = client
        self._is_root = is_root
        self._since = since
        self._kept = kept
        self._run_id = run_id
        self._queue = queue
        self._after = after
        self._follows = children
        self._live = live
        self._storage = storage
        self._read = ""
        """The id of the last event read: a source that has been read to its end continues from here."""
        self._children: dict[str, _Source] = {}
        self._task: asyncio.Task[None] | None = None

    async def queue_events(self, *, follow: bool) -> None:
        await self._queue_own(follow=follow)
        if not follow:
            for child in self._children.values():
                await child.finish()

    async def _queue_own(self, *, follow: bool) -> None:
        live = PendingActivities(self._client, self._run_id, self._queue.put) if follow else None
        topic = topic_of(self._client.namespace, self._run_id)
        text = LiveText(self._live, topic, self._queue.put) if follow and self._live else None
        try:
            async for event in events_of(
                self._client,
                self._run_id,
                self._storage,
                after=self._read,
                follow=follow,
                anew=self._is_root,
                since=self._since,
                kept=self._kept,
            ):
                if live:
                    live.feed(event)
                place, after = place_of(event.event_id), place_of(self._after.of(self._run_id))
                is_new = place > after
                await self._before(event, is_new=is_new)
                if text:
                    await text.feed(event, is_new=is_new)
                elif is_new:
                    await self._queue.put(event)
                self._read = event.event_id
                if self._follows and isinstance(event, AgentRunStartedEvent):
                    await self._begin(event, self._after.below(event, is_new=is_new))
                if follow and place >= after:
                    for child in self._children.values():
                        child.follow()
        finally:
            if live:
                await live.close()
            if text:
                await text.close()

    async def _begin(self, event: AgentRunStartedEvent, after: Position | None) -> None:
        """Begin only after the position, since the call may have ended before."""
        if before := self._children.pop(event.tool_call_id, None):
            await before.close()  # the parent run was reset, and has started the child run again
        if after is None:
            return  # all of its events were delivered before
        self._children[event.tool_call_id] = _Source(
            self._client,
            event.run_link.run_id,
            self._queue,
            after,
            children=self._follows,
            live=self._live,
            storage=self._storage,
            is_root=False,
        )

    def follow(self) -> None:
        self._task = self._task or asyncio.create_task(
            self._quietly(follow=True), name=f"events of {self._run_id}"
        )

    async def _before(self, event: Event, *, is_new: bool) -> None:
        """Queue a child run's events before the end of its call."""
        ended: list[str] = []
        if isinstance(event, ToolResultReceivedEvent):
            ended = [event.tool_call_id] if event.tool_call_id in self._children else []
        elif event.type == END:
            ended = list(self._children)
        for call_id in ended:
            if is_new:
                await self._children[call_id].finish()
            del self._children[call_id]

    async def finish(self) -> None:
        """Queue all recorded events that are not queued yet, without waiting for more.

        A cancelled call of this method can be repeated: no event is queued twice, or lost.
        """
        await _has_ended(self._task)
        await self._quietly(follow=False)

    async def _quietly(self, *, follow: bool) -> None:
        try:
            await self.queue_events(follow=follow)
        except RunNotFound:
            pass  # Temporal has deleted the history
        except SojournError as error:
            await self._queue.put(error)

    async def close(self) -> None:
        await _has_ended(self._task)
        for child in self._children.values():
            await child.close()


async def _has_ended(task: "asyncio.Task[None] | None") -> None:
    if task is not None:
        task.cancel()
        await asyncio.wait({task})

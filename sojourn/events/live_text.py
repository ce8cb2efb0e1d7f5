"""LiveText: the deltas of one run, subscribed to and told among its events."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import structlog

from sojourn.contracts.event import Event
from sojourn.events.preview import Preview
from sojourn.live import LiveTransport

__all__ = ["LiveText"]

_log = structlog.get_logger("sojourn.live")


class LiveText:
    """Tells events and deltas one after the other; a transport that fails costs only the deltas."""

    def __init__(
        self, transport: LiveTransport, topic: str, tell: Callable[[Event], Awaitable[None]]
    ) -> None:
        self._transport = transport
        self._topic = topic
        self._tell = tell
        self._preview = Preview()
        self._order = asyncio.Lock()
        self._task = asyncio.create_task(self._read(), name=f"deltas of {topic}")

    async def tell(self, event: Event, *, is_new: bool) -> None:
        """Tell an event of the history, if it is new, and the deltas that waited for it."""
        async with self._order:
            waited = self._preview.feed(event)
            for each in [event, *waited] if is_new else waited:
                await self._tell(each)

    async def close(self) -> None:
        """End the subscription."""
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _read(self) -> None:
        try:
            async with aclosing(self._transport.subscribe(self._topic)) as news:
                async for deltas in news:
                    async with self._order:
                        for delta in deltas:
                            for event in self._preview.take(delta):
                                await self._tell(event)
        except Exception as error:  # noqa: BLE001 - a transport may be anybody's, and costs no stream
            _log.warning("live_text_failed", reason=f"{type(error).__name__}: {error}"[:200])

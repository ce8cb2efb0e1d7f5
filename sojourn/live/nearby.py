"""NearbyTransport: what a client without a setting reads: its own process, and the hub of a `sojourn dev` beside it."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from sojourn.live.transport import Delta, LiveTransport

__all__ = ["NearbyTransport"]


class NearbyTransport:
    """Publishes within the process, and subscribes there and at a hub too; a delta that comes from both comes twice."""

    def __init__(self, local: LiveTransport, hub: LiveTransport) -> None:
        self._local = local
        self._hub = hub

    def is_wanted(self, topic: str) -> bool:
        """Whether the run's deltas have a subscriber in this process."""
        return self._local.is_wanted(topic)

    async def publish(self, topic: str, deltas: Sequence[Delta]) -> bool:
        """Publish deltas within this process."""
        return await self._local.publish(topic, deltas)

    async def subscribe(self, topic: str) -> AsyncGenerator[Sequence[Delta]]:
        """Yield the current answer from each of the two, then further deltas, as they come."""
        news = asyncio.Queue[Sequence[Delta]](1)
        reading = [asyncio.create_task(_forward(each, topic, news)) for each in (self._local, self._hub)]
        try:
            while True:
                yield await news.get()
        finally:
            for task in reading:
                task.cancel()
            await asyncio.wait(reading)

    async def close(self) -> None:
        """Close the connections."""
        await self._local.close()
        await self._hub.close()


async def _forward(source: LiveTransport, topic: str, news: asyncio.Queue[Sequence[Delta]]) -> None:
    async with aclosing(source.subscribe(topic)) as deltas:
        async for new in deltas:
            await news.put(new)

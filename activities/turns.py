"""Turns: who may run now, so that no tool takes all places for itself.

While places are free, the first to ask gets one. A tool that holds fewer than its own few
gets one even when none is free: hanging calls of one tool delay only further calls of that tool.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

__all__ = ["Turns"]


class Turns:
    """The places of one event loop.

    Args:
        places: Number of places.
        own: How many places a tool may hold in any case, even when all are taken.
    """

    def __init__(self, places: int, own: int) -> None:
        self.taken: Counter[str] = Counter()
        """Number of places taken by each tool."""
        self._places = places
        self._own = own
        self._waiting: deque[tuple[str, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def place(self, tool_id: str) -> AsyncGenerator[None]:
        """Wait for a place, and hold it while the body runs."""
        if self._is_free(tool_id):
            self.taken[tool_id] += 1
        else:
            await self._wait_for_place(tool_id)
        try:
            yield
        finally:
            self._give_back(tool_id)

    def _is_free(self, tool_id: str) -> bool:
        return self.taken.total() < self._places or self.taken[tool_id] < self._own

    async def _wait_for_place(self, tool_id: str) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append((tool_id, waiter))
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                self._waiting.remove((tool_id, waiter))
            else:  # the place was given at this moment
                self._give_back(tool_id)
            raise

    def _give_back(self, tool_id: str) -> None:
        self.taken[tool_id] -= 1
        if not self.taken[tool_id]:
            del self.taken[tool_id]
        for place, (waiting, waiter) in enumerate(self._waiting):
            if not waiter.done() and self._is_free(waiting):
                del self._waiting[place]
                self.taken[waiting] += 1
                waiter.set_result(None)
                return

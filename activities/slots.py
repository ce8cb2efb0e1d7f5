"""Slots: who may run now, so that no tool takes all slots for itself.

While slots are free, the first to ask gets one. A tool that holds fewer than its own few
slots gets one even when none is free: hanging calls of one tool delay only further calls of that tool.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

__all__ = ["Slots"]


class Slots:
    """The slots of one event loop.

    Args:
        slots: Number of slots.
        own: How many slots a tool may hold in any case, even when all are taken.
    """

    def __init__(self, slots: int, own: int) -> None:
        self.taken: Counter[str] = Counter()
        """Number of slots taken by each tool."""
        self._slots = slots
        self._own = own
        self._waiting: deque[tuple[str, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def slot(self, tool_id: str) -> AsyncGenerator[None]:
        """Wait for a slot, and hold it while the body runs."""
        if self._is_free(tool_id):
            self.taken[tool_id] += 1
        else:
            await self._wait_for_slot(tool_id)
        try:
            yield
        finally:
            self._give_back(tool_id)

    def _is_free(self, tool_id: str) -> bool:
        return self.taken.total() < self._slots or self.taken[tool_id] < self._own

    async def _wait_for_slot(self, tool_id: str) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append((tool_id, waiter))
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                self._waiting.remove((tool_id, waiter))
            else:  # the slot was given at this moment
                self._give_back(tool_id)
            raise

    def _give_back(self, tool_id: str) -> None:
        self.taken[tool_id] -= 1
        if not self.taken[tool_id]:
            del self.taken[tool_id]
        for index, (waiting, waiter) in enumerate(self._waiting):
            if not waiter.done() and self._is_free(waiting):
                del self._waiting[index]
                self.taken[waiting] += 1
                waiter.set_result(None)
                return

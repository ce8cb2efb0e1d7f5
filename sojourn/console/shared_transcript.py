"""Shared transcript: the messages of a run that goes on, read once for everybody who reads along, and a fifth of the time at most."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from sojourn.contracts.message import Message

__all__ = ["LastMessages", "SharedTranscript"]

KEPT = 180
"""Most messages that are kept, the last ones."""

SOON = 1.0
"""Seconds between two readings, at least."""


class LastMessages(NamedTuple):
    """The last messages of a transcript."""

    version: int = -1
    """Of what is told of the run, when the reading began."""
    total: int = 0
    """Messages of the whole."""
    messages: tuple[Message, ...] = ()

    @property
    def first(self) -> int:
        """The number of the first one that is here."""
        return self.total - len(self.messages)


class SharedTranscript:
    """Reads the transcript of a run.

    Args:
        read: Reads all of it.
    """

    def __init__(self, read: Callable[[], Awaitable[list[Message]]]) -> None:
        self._read = read
        self._last = LastMessages()
        self._reading: asyncio.Task[None] | None = None
        self._due = 0.0

    async def at(self, version: int) -> LastMessages:
        """The last messages, as they were at a version or later; raises as the reading does."""
        while self._last.version < version:
            if self._reading is None or self._reading.done():
                self._reading = asyncio.ensure_future(self._again(version))
                self._reading.add_done_callback(lambda done: None if done.cancelled() else done.exception())
            await asyncio.shield(self._reading)
        return self._last

    async def _again(self, version: int) -> None:
        await asyncio.sleep(max(0.0, self._due - time.monotonic()))
        began = time.monotonic()
        try:
            messages = await self._read()
        finally:
            took = time.monotonic() - began
            self._due = began + took + max(SOON, 4 * took)
        self._last = LastMessages(version, len(messages), tuple(messages[-KEPT:]))

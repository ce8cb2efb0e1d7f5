"""LocalTransport: deltas between the workers and subscribers of one process.

A run that somebody follows has one log, its present answer, and each subscriber a place in it: one that is slow or
late reads on from its place and holds up nobody. `Deltas` bounds the length of an attempt.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

from sojourn.live.transport import Delta

__all__ = ["LocalTransport"]


@dataclass(slots=True, eq=False)
class _Reader:
    """One subscriber, in whichever loop it is."""

    loop: asyncio.AbstractEventLoop
    news: asyncio.Event
    answer: list[Delta] = field(default_factory=list[Delta])
    """The answer that it reads."""
    place: int = 0


@dataclass(slots=True)
class _Log:
    answer: list[Delta] = field(default_factory=list[Delta])
    readers: list[_Reader] = field(default_factory=list[_Reader])


class LocalTransport:
    """The default: it carries the deltas of runs that are followed in this process, from any thread and loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._logs: dict[str, _Log] = {}

    def is_wanted(self, topic: str) -> bool:
        """Whether somebody in this process follows the run's deltas."""
        return topic in self._logs

    async def publish(self, topic: str, deltas: Sequence[Delta]) -> bool:
        """Hand deltas on; those of an attempt that another stands in the place of are dropped."""
        with self._lock:
            log = self._logs.get(topic)
            if log is None or not deltas:
                return log is not None
            if log.answer and deltas[0].started < log.answer[-1].started:
                return False
            if deltas[0].seq == 0:
                log.answer = []
            log.answer.extend(deltas)
            readers = list(log.readers)
        for reader in readers:
            try:
                reader.loop.call_soon_threadsafe(reader.news.set)
            except RuntimeError:  # its loop has ended, and it with it
                self._leave(topic, reader)
        return True

    async def subscribe(self, topic: str) -> AsyncGenerator[Sequence[Delta]]:
        """The present answer and what comes, from the moment it is first read."""
        reader = _Reader(asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            log = self._logs.setdefault(topic, _Log())
            log.readers.append(reader)
        try:
            while True:
                reader.news.clear()
                if new := self._new(log, reader):
                    yield new
                else:
                    await reader.news.wait()
        finally:
            self._leave(topic, reader)

    async def close(self) -> None:
        """Nothing is held open."""

    def _new(self, log: _Log, reader: _Reader) -> Sequence[Delta]:
        with self._lock:
            if reader.answer is not log.answer:
                reader.answer, reader.place = log.answer, 0
            new = reader.answer[reader.place :]
            reader.place += len(new)
            return new

    def _leave(self, topic: str, reader: _Reader) -> None:
        with self._lock:
            log = self._logs.get(topic)
            if log is None or reader not in log.readers:
                return
            log.readers.remove(reader)
            if not log.readers:
                del self._logs[topic]

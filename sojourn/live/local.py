"""Carry deltas between the workers and subscribers of one process.

Each run that is followed has one log, the deltas of its current answer, and each subscriber has its
own position in the log. So a slow or late subscriber holds up no other. `Deltas` bounds the length
of an attempt.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

from sojourn.live.transport import Delta

__all__ = ["LocalTransport"]


@dataclass(slots=True, eq=False)
class _LocalReader:
    loop: asyncio.AbstractEventLoop
    news: asyncio.Event
    answer: list[Delta] = field(default_factory=list[Delta])
    """The answer that the subscriber reads, by identity."""
    place: int = 0
    """The deltas of that answer that it has read."""


@dataclass(slots=True)
class _Log:
    answer: list[Delta] = field(default_factory=list[Delta])
    readers: list[_LocalReader] = field(default_factory=list[_LocalReader])


class LocalTransport:
    """The default transport, which carries deltas within this process.

    It works between any threads and event loops.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._logs: dict[str, _Log] = {}

    def is_wanted(self, topic: str) -> bool:
        return topic in self._logs

    async def publish(self, topic: str, deltas: Sequence[Delta]) -> bool:
        """Append deltas to the run's log. Those of a replaced attempt are refused."""
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
            except RuntimeError:  # the subscriber's event loop is closed
                self._leave(topic, reader)
        return True

    async def subscribe(self, topic: str) -> AsyncGenerator[Sequence[Delta]]:
        """Yield the current answer, then further deltas. It begins at the first read."""
        reader = _LocalReader(asyncio.get_running_loop(), asyncio.Event())
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

    async def close(self) -> None: ...

    def _new(self, log: _Log, reader: _LocalReader) -> Sequence[Delta]:
        with self._lock:
            if reader.answer is not log.answer:
                reader.answer, reader.place = log.answer, 0
            new = reader.answer[reader.place :]
            reader.place += len(new)
            return new

    def _leave(self, topic: str, reader: _LocalReader) -> None:
        with self._lock:
            log = self._logs.get(topic)
            if log is None or reader not in log.readers:
                return
            log.readers.remove(reader)
            if not log.readers:
                del self._logs[topic]

"""Carry live text from workers to subscribers, and within one process.

The local transport has one log for each run that is followed, the deltas of its current answer, and each
subscriber has its own position in the log. So a slow or late subscriber holds up no other. `Deltas` bounds the
length of an attempt.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol, runtime_checkable

import structlog

from sojourn.contracts.record import Record

__all__ = ["Delta", "DeltaKind", "LiveTransport", "LocalTransport", "Outage", "topic_of"]

_log = structlog.get_logger("sojourn.live")


class Outage:
    """Whether a transport is unavailable, for all its publishers and subscribers."""

    def __init__(self, *, is_logged: bool = True) -> None:
        self._is_logged = is_logged
        self._has_begun = False

    def begin(self, error: Exception) -> None:
        if not self._has_begun and self._is_logged:
            reason = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
            _log.warning("live_text_unavailable", reason=reason, effect="runs go on, without deltas")
        self._has_begun = True

    def end(self) -> None:
        if self._has_begun and self._is_logged:
            _log.info("live_text_available")
        self._has_begun = False


DeltaKind = Literal["begun", "text", "thinking", "tool_call"]
"""`begun` marks that the answer begins again, in a later attempt or after a correction; the others are its pieces."""


class Delta(Record):
    """One piece of one attempt at one plan; the deltas of an attempt are numbered from 0, without a gap."""

    kind: DeltaKind
    """The part of the answer that the piece belongs to."""
    scheduled: datetime
    """When the plan was scheduled, by the server's clock: the `time` of its `plan_started`."""
    started: datetime
    """When the attempt started, by the server's clock: the deltas of a later attempt replace those of earlier ones."""
    plan: int = 1
    """The number of the plan in the run, from 1."""
    attempt: int = 1
    """The number of the attempt at the plan, from 1."""
    seq: int = 0
    """The number of the delta in the attempt, from 0."""
    at: datetime
    """When the worker sent the delta, by the worker's clock."""
    text: str = ""
    """The piece."""
    tool_name: str = ""
    """For `tool_call`: the tool, as the planner wrote it."""
    index: int = 0
    """For `tool_call`: the number of the call in the plan, from 0."""


@runtime_checkable
class LiveTransport(Protocol):
    """Holds the current answer of each followed run, and delivers its deltas.

    The deltas are delivered as they are written. A topic is a run in its namespace. Nothing here is
    durable, nor needs to be: the complete answer is in the history, as the event
    `assistant_message`.
    """

    def is_wanted(self, topic: str) -> bool:
        """Return whether a worker should publish this run's deltas.

        It is called for every plan, so it must not block.
        """
        ...

    async def publish(self, topic: str, deltas: Sequence[Delta]) -> bool:
        """Publish the next deltas of an attempt, without raising an error.

        An answer begins with the delta whose `seq` is 0, which replaces the answer so far.

        Returns:
            False when the deltas could not be published; the worker then sends no more of this attempt.
        """
        ...

    def subscribe(self, topic: str) -> AsyncGenerator[Sequence[Delta]]:
        """Yield the current answer from its beginning, then further deltas, until closed.

        A delta may come twice.
        """
        ...

    async def close(self) -> None:
        """Close the connections.

        The next use opens new ones.
        """
        ...


def topic_of(namespace: str, run_id: str) -> str:
    """Return the topic of a run, which is unique across namespaces."""
    return f"{namespace}/{run_id}"


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

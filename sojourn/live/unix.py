"""UnixTransport: deltas between processes of one user on one machine, by way of a hub at a Unix socket.

When no hub listens, nothing is sent for a second, and runs continue.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from weakref import WeakKeyDictionary

from pydantic import ValidationError

from sojourn.live.frame import MAX_FRAME, Frame
from sojourn.live.outage import Outage
from sojourn.live.place import peer_is_us
from sojourn.live.transport import Delta
from sojourn.private import is_private

__all__ = ["UnixTransport"]

PATIENCE = 1.0
"""Seconds for connecting to the hub, and for publishing deltas."""

PAUSE = 1.0
"""Seconds after a failure in which nothing is published."""

RETRY = 1.0
"""Seconds until a subscriber connects again after a failure."""

_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(slots=True)
class _Writing:
    """The connection for writing of an event loop."""

    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    connection: _Connection | None = None

    def drop(self) -> None:
        """Close the connection."""
        if self.connection is not None:
            self.connection[1].transport.abort()
            self.connection = None


class UnixTransport:
    """Carries deltas by way of a hub, which `sojourn dev` holds.

    All runs of an event loop share one connection; each subscriber has a connection of its own.

    Args:
        path: The path of the hub's socket, at most 100 bytes.
        is_expected: Whether it is logged that no hub listens.
    """

    def __init__(self, path: Path, *, is_expected: bool = True) -> None:
        self._path = path
        self._outage = Outage(is_logged=is_expected)
        self._paused_until = 0.0
        self._writing = WeakKeyDictionary[asyncio.AbstractEventLoop, _Writing]()

    def is_wanted(self, topic: str) -> bool:
        """Whether to publish: False for 1 s after a failure, else True, since the hub keeps answers for late subscribers."""
        del topic
        return time.monotonic() >= self._paused_until

    async def publish(self, topic: str, deltas: Sequence[Delta]) -> bool:
        """Send deltas to the hub, for at most a second."""
        if not (deltas and self.is_wanted(topic)):
            return not deltas
        lines = [Frame(topic=topic, delta=delta).line() for delta in deltas]
        if max(map(len, lines)) > MAX_FRAME:
            return False
        writing = self._writing.setdefault(asyncio.get_running_loop(), _Writing())
        try:
            async with asyncio.timeout(PATIENCE):
                writer = await self._writer(writing)
                writer.write(b"".join(lines))
                await writer.drain()
        except OSError as error:
            self._paused_until = time.monotonic() + PAUSE
            writing.drop()
            self._outage.begin(error)
            return False
        self._outage.end()
        return True

    async def subscribe(self, topic: str) -> AsyncGenerator[Sequence[Delta]]:
        """Yield the run's current answer, then new deltas; when the hub is gone, connect again each second."""
        while True:
            try:
                reader, writer = await self._connect()
                try:
                    writer.write(Frame(topic=topic).line())
                    self._outage.end()
                    while line := await reader.readline():
                        if (delta := _read(line)) is not None:
                            yield [delta]
                finally:
                    writer.transport.abort()
                self._outage.begin(ConnectionResetError("the hub has hung up"))
            except (OSError, ValueError) as error:  # ValueError: a line is too long
                self._outage.begin(error)
            await asyncio.sleep(RETRY)

    async def close(self) -> None:
        """Close the connection for writing of this event loop."""
        if writing := self._writing.pop(asyncio.get_running_loop(), None):
            writing.drop()

    async def _writer(self, writing: _Writing) -> asyncio.StreamWriter:
        """Return the connection for writing; open one if there is none, or the hub has hung up."""
        async with writing.opening:
            if writing.connection and (writing.connection[0].at_eof() or writing.connection[1].is_closing()):
                writing.drop()
            if writing.connection is None:
                writing.connection = await self._connect()
            return writing.connection[1]

    async def _connect(self) -> _Connection:
        """Connect to the hub.

        Raises:
            OSError: No hub of this user listens.
        """
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_unix_connection(self._path, limit=MAX_FRAME)
        if not (is_private(self._path.parent) and peer_is_us(writer.get_extra_info("socket"))):
            writer.transport.abort()
            raise PermissionError(f"another user listens at {self._path}, or could")
        return reader, writer


def _read(line: bytes) -> Delta | None:
    """The delta of a line; None for a line that is no frame, such as one that was cut off."""
    try:
        return Frame.model_validate_json(line).delta
    except ValidationError:
        return None

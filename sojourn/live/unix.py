"""Live text between the processes of one user, by a hub at a Unix socket.

Every program of a user that knows the address of a server on this machine finds the same path, in a folder that only
this user can enter.

When no hub listens, nothing is sent for a second, and runs continue.
"""

import asyncio
import os
import socket
import struct
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from weakref import WeakKeyDictionary

from pydantic import ValidationError

from sojourn.contracts.record import Record
from sojourn.errors import DefinitionError
from sojourn.live.transport import Delta, Outage
from sojourn.private import MAX_PATH, is_private, runtime_path

__all__ = ["MAX_FRAME", "SCHEME", "Frame", "UnixTransport", "peer_is_us", "socket_at", "socket_of"]

SCHEME = "unix://"
"""Begins the address of a socket; its absolute path follows."""


def socket_of(server: str) -> Path | None:
    """Return the socket path of a Temporal server on this machine, or None."""
    return runtime_path(server, "live-{port}.sock")


def socket_at(url: str) -> Path:
    """Return the path in an address `unix:///PATH`."""
    path = url.removeprefix(SCHEME)
    if not path.startswith("/") or "\0" in path:
        raise DefinitionError("SOJOURN_LIVE=unix:///PATH needs an absolute path, so with three slashes")
    if (length := len(os.fsencode(path))) > MAX_PATH:
        raise DefinitionError(
            f"the path of SOJOURN_LIVE=unix:///PATH has {length} bytes, and a socket's path may have "
            f"{MAX_PATH}; choose a shorter one"
        )
    return Path(path)


def peer_is_us(connection: socket.socket) -> bool:
    """Return whether the process at the other end of a Unix socket runs as this user.

    True if the system cannot tell.
    """
    option = getattr(socket, "SO_PEERCRED", None)  # Linux
    if option is None:
        return True
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i")))
    return user == os.getuid()


MAX_FRAME = 256_000
"""Most bytes of a line; a longer one ends the connection."""


class Frame(Record):
    """A delta of a run; without a delta, a subscriber's wish for those of the run."""

    topic: str
    """The run, as `topic_of` names it."""
    delta: Delta | None = None
    """The delta."""

    def line(self) -> bytes:
        return self.model_dump_json(exclude_defaults=True).encode() + b"\n"


PATIENCE = 1.0
"""Seconds for connecting to the hub, and for publishing deltas."""

PAUSE = 1.0
"""Seconds after a failure in which nothing is published."""

RETRY = 1.0
"""Seconds until a subscriber connects again after a failure."""

_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(slots=True)
class _Writing:
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    connection: _Connection | None = None

    def drop(self) -> None:
        if self.connection is not None:
            self.connection[1].transport.abort()
            self.connection = None


class UnixTransport:
    """Carries deltas by way of a hub, which `sojourn dev` holds.

    All runs of an event loop share one connection; each subscriber has a connection of its own.
    """

    def __init__(self, path: Path, *, is_expected: bool = True) -> None:
        self._path = path
        self._outage = Outage(is_logged=is_expected)
        self._paused_until = 0.0
        self._writing = WeakKeyDictionary[asyncio.AbstractEventLoop, _Writing]()

    def is_wanted(self, topic: str) -> bool:
        """Return whether the hub did not fail within 1 s."""
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
        """Yield the run's current answer, then new deltas.

        When the hub is gone, connect again each second.
        """
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
        if writing := self._writing.pop(asyncio.get_running_loop(), None):
            writing.drop()

    async def _writer(self, writing: _Writing) -> asyncio.StreamWriter:
        async with writing.opening:
            if writing.connection and (writing.connection[0].at_eof() or writing.connection[1].is_closing()):
                writing.drop()
            if writing.connection is None:
                writing.connection = await self._connect()
            return writing.connection[1]

    async def _connect(self) -> _Connection:
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_unix_connection(self._path, limit=MAX_FRAME)
        if not (is_private(self._path.parent) and peer_is_us(writer.get_extra_info("socket"))):
            writer.transport.abort()
            raise PermissionError(f"another user listens at {self._path}, or could")
        return reader, writer


def _read(line: bytes) -> Delta | None:
    try:
        return Frame.model_validate_json(line).delta
    except ValidationError:
        return None

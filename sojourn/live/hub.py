"""The hub of live text between the processes of one user on one machine.

`sojourn dev` holds it, so that it outlives the workers that are reloaded. A worker connects and writes a line for each
delta; a subscriber connects, writes one line with its run, and reads the run's current answer and what follows. A
subscriber has a position in the answer, not a queue, so one that does not read costs no memory.
"""

import asyncio
import contextlib
import fcntl
import socket
import stat
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from sojourn.live.transport import Delta
from sojourn.live.unix import MAX_FRAME, SCHEME, Frame, peer_is_us, socket_at
from sojourn.private import is_private, private_folder, private_opener

__all__ = ["CurrentAnswer", "CurrentAnswers", "Hub", "serving"]

MAX_DELTAS = 20_000
"""Most deltas of one answer."""

MAX_BYTES = 8_000_000
"""Most bytes of one answer, as it is sent."""

MAX_TOTAL = 64_000_000
"""Most bytes of all answers. The one that has not grown for longest is evicted."""

KEPT = 900.0
"""Seconds to cache an answer after its last delta."""

_OVERHEAD = 200
"""Bytes that a delta takes beside its own, about."""


@dataclass(slots=True, eq=False)
class CurrentAnswer:
    started: datetime
    """When the attempt started."""
    lines: list[bytes] = field(default_factory=list[bytes])
    """The frames of its deltas."""
    size: int = 0
    """The bytes that it takes."""
    grown: float = 0.0
    """When its last delta came, by the monotonic clock."""


class CurrentAnswers:
    def __init__(self) -> None:
        self._answers: OrderedDict[str, CurrentAnswer] = OrderedDict()
        self._size = 0

    def get(self, topic: str) -> CurrentAnswer | None:
        return self._answers.get(topic)

    def add(self, topic: str, delta: Delta, line: bytes) -> None:
        """Add a delta, unless it is of a replaced attempt, or above the bounds."""
        answer = self._answers.get(topic)
        if answer and delta.started < answer.started:
            return
        if answer is None or delta.seq == 0:
            self._forget(topic)
            answer = self._answers[topic] = CurrentAnswer(delta.started)
        cost = len(line) + len(topic) + _OVERHEAD
        if len(answer.lines) >= MAX_DELTAS or answer.size + cost > MAX_BYTES:
            return
        answer.started, answer.grown = delta.started, time.monotonic()
        answer.lines.append(line)
        answer.size += cost
        self._size += cost
        self._answers.move_to_end(topic)
        self._forget_oldest()

    def _forget_oldest(self) -> None:
        while True:
            topic, oldest = next(iter(self._answers.items()))
            if self._size <= MAX_TOTAL and oldest.grown >= time.monotonic() - KEPT:
                return
            self._forget(topic)

    def _forget(self, topic: str) -> None:
        if answer := self._answers.pop(topic, None):
            self._size -= answer.size


MAX_CONNECTIONS = 256
"""Most connections; further ones are closed at once."""

BATCH = 64_000
"""Bytes that are written to a subscriber at once."""

PATIENCE = 30.0
"""Seconds after which a subscriber that does not read is disconnected; it may connect again."""

TAKE_OVER = 0.5
"""Seconds between checks that the process that holds the socket still runs."""


@contextlib.asynccontextmanager
async def serving(url: str) -> AsyncGenerator[None]:
    """Serve a hub, or wait to take the place of the one that serves the address."""
    if not url.startswith(SCHEME):
        yield
        return
    path, hub = socket_at(url), Hub()
    with _lock_file(path) as held:
        waiting = None
        try:
            if _lock(held):
                await hub.listen(path)
            else:
                waiting = asyncio.create_task(_take_over(hub, path, held), name="hub that waits")
            yield
        finally:
            if waiting is not None:
                waiting.cancel()
                await asyncio.wait({waiting})
            hub.close()


class Hub:
    """Takes deltas from publishers, and sends each run's answer to its subscribers."""

    def __init__(self) -> None:
        self._answers = CurrentAnswers()
        self._news: dict[str, set[asyncio.Event]] = {}
        """What wakes the subscribers of each topic."""
        self._connections: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._path: Path | None = None

    async def listen(self, path: Path) -> None:
        """Listen at the path, in place of a socket that a dead process left."""
        listener = _listener(path)
        try:
            self._server = await asyncio.start_unix_server(self._serve, sock=listener, limit=MAX_FRAME)
        except BaseException:
            listener.close()
            raise
        self._path = path

    def close(self) -> None:
        if self._server is None or self._path is None:
            return
        self._server.close()
        for writer in self._connections:
            writer.transport.abort()
        self._path.unlink(missing_ok=True)
        self._server = self._path = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= MAX_CONNECTIONS or not peer_is_us(writer.get_extra_info("socket")):
            writer.transport.abort()
            return
        self._connections.add(writer)
        try:
            while line := await reader.readline():
                frame = Frame.model_validate_json(line)
                if frame.delta is None:
                    await self._deliver(frame.topic, reader, writer)
                    return
                self._answers.add(frame.topic, frame.delta, line)
                for news in self._news.get(frame.topic, ()):
                    news.set()
        except (OSError, ValueError):  # the connection broke, or a line is too long or no frame
            pass
        finally:
            self._connections.discard(writer)
            writer.transport.abort()

    async def _deliver(self, topic: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sending = asyncio.create_task(self._send(topic, writer))
        try:
            await reader.read(1)  # a subscriber writes nothing more, so this is its end
        finally:
            sending.cancel()
            await asyncio.wait({sending})

    async def _send(self, topic: str, writer: asyncio.StreamWriter) -> None:
        news, answer, place = asyncio.Event(), None, 0
        self._news.setdefault(topic, set()).add(news)
        try:
            while True:
                news.clear()
                current = self._answers.get(topic)
                if current is not answer:
                    answer, place = current, 0
                if new := _batch(answer, place):
                    place += len(new)
                    async with asyncio.timeout(PATIENCE):
                        writer.write(b"".join(new))
                        await writer.drain()
                else:
                    await news.wait()
        except OSError:  # the subscriber has hung up, or did not read
            pass
        finally:
            self._news[topic].discard(news)
            if not self._news[topic]:
                del self._news[topic]
            writer.transport.abort()


def _batch(answer: CurrentAnswer | None, place: int) -> list[bytes]:
    batch, size = list[bytes](), 0
    while answer and place + len(batch) < len(answer.lines) and size < BATCH:
        batch.append(answer.lines[place + len(batch)])
        size += len(batch[-1])
    return batch


def _lock_file(path: Path) -> BinaryIO:
    """Open the lock of a socket, in a folder that only this user can enter."""
    private_folder(path.parent)
    if not is_private(path.parent):
        raise PermissionError(
            f"{path.parent} is not a folder of yours that only you can enter; name one that is"
        )
    return open(f"{path}.lock", "ab", opener=private_opener)


def _listener(path: Path) -> socket.socket:
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise FileExistsError(f"{path} is there already, and is not a socket; remove it")
        path.unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        path.chmod(0o600)
    except BaseException:
        listener.close()
        raise
    return listener


def _lock(held: BinaryIO) -> bool:
    """Acquire the lock of a socket, which the system releases when the process ends."""
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


async def _take_over(hub: Hub, path: Path, held: BinaryIO) -> None:
    while not _lock(held):  # noqa: ASYNC110 - the system does not report that a lock is free again
        await asyncio.sleep(TAKE_OVER)
    with contextlib.suppress(OSError):
        await hub.listen(path)

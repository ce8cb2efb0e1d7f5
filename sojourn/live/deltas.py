"""Deltas: where a planner writes its answer, while it grows.

```python
deltas = current_deltas()
if deltas is None:  # nobody wants to see it
    return PlanResult.final(await ask(model))
async for piece in stream(model):
    await deltas.text(piece)
```
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from sojourn.live.transport import Delta, DeltaKind, LiveTransport

__all__ = ["Attempt", "Deltas", "current_deltas", "telling"]

INTERVAL = 0.03
"""Seconds in which pieces are gathered before they are sent as one; the first is sent at once."""

MAX_CHARS = 1_000_000
"""Characters of one attempt that are sent; the message, when it comes, holds the rest."""

MAX_DELTAS = 20_000
"""Deltas of one attempt that are sent."""

MAX_PIECE = 8_000
"""Characters of one delta."""

LAST_WORD = 0.5
"""Seconds that the end of a turn waits for what is not sent yet."""


_log = structlog.get_logger("sojourn.live")


@dataclass(frozen=True, slots=True)
class Attempt:
    """Whose deltas they are: one attempt at one plan."""

    topic: str
    """The run, in its namespace."""
    plan: int
    """Which plan of the run."""
    attempt: int
    """Which attempt at it."""
    scheduled: datetime
    """When the plan was scheduled, by the server's clock."""
    started: datetime
    """When the attempt started, by the server's clock."""


class Deltas:
    """Takes the pieces of one attempt, and sends them on in its own time: who writes never waits for who reads."""

    def __init__(self, transport: LiveTransport, attempt: Attempt) -> None:
        self.attempt = attempt
        self._transport = transport
        self._waiting: list[tuple[DeltaKind, str, int, list[str]]] = []
        """What is not sent: kind, tool, index and the pieces."""
        self._seq = 0
        self._chars = 0
        self._has_ended = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def text(self, piece: str) -> None:
        """Write a piece of the message."""
        await self._write("text", piece)

    async def thinking(self, piece: str) -> None:
        """Write a piece of what the model thinks."""
        await self._write("thinking", piece)

    async def tool_call(self, name: str, piece: str, *, index: int = 0) -> None:
        """Write a piece of a call's arguments.

        Args:
            name: The tool.
            piece: JSON, as far as it goes.
            index: Which call of the plan, from 0.
        """
        await self._write("tool_call", piece, name, index)

    @property
    def is_wanted(self) -> bool:
        """Whether somebody may see it."""
        return not self._has_ended.is_set() and self._transport.is_wanted(self.attempt.topic)

    def begin(self) -> None:
        """Mark that the answer begins, or begins anew: the deltas before it no longer hold."""
        self._add("begun", "", "", 0)

    async def close(self) -> None:
        """Send what is left, within half a second; what is written later is dropped."""
        self._has_ended.set()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=LAST_WORD)
            self._task.cancel()

    async def _write(self, kind: DeltaKind, piece: str, name: str = "", index: int = 0) -> None:
        if self._has_ended.is_set() or not (piece or name):
            return
        self._chars += len(piece)
        if self._chars > MAX_CHARS or self._seq >= MAX_DELTAS:
            self._has_ended.set()
            return
        for start in range(0, len(piece) or 1, MAX_PIECE):
            self._add(kind, piece[start : start + MAX_PIECE], name, index)
        await asyncio.sleep(0)  # so that they are sent on even while a planner that never waits goes on

    def _add(self, kind: DeltaKind, piece: str, name: str, index: int) -> None:
        last = self._waiting[-1] if self._waiting else None
        if last and last[:3] == (kind, name, index) and sum(map(len, last[3])) + len(piece) <= MAX_PIECE:
            last[3].append(piece)
        else:
            self._waiting.append((kind, name, index, [piece]))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._send(), name=f"deltas of {self.attempt.topic}")

    async def _send(self) -> None:
        """Send what waits, gather for 30 ms, and again, until nothing waits or nobody takes it."""
        while self._waiting:
            if not await self._published(self._taken()):
                self._has_ended.set()
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._has_ended.wait(), INTERVAL)

    async def _published(self, deltas: Sequence[Delta]) -> bool:
        try:
            return await self._transport.publish(self.attempt.topic, deltas)
        except Exception as error:  # noqa: BLE001 - a transport may be anybody's, and costs no plan
            _log.warning("live_text_failed", reason=f"{type(error).__name__}: {error}"[:200])
            return False

    def _taken(self) -> Sequence[Delta]:
        waiting, self._waiting = self._waiting, []
        own, at = self.attempt, datetime.now(UTC)
        taken = [
            Delta(
                kind=kind,
                scheduled=own.scheduled,
                started=own.started,
                plan=own.plan,
                attempt=own.attempt,
                seq=self._seq + number,
                at=at,
                text="".join(pieces),
                tool_name=name,
                index=index,
            )
            for number, (kind, name, index, pieces) in enumerate(waiting)
        ]
        self._seq += len(taken)
        return taken


_current: ContextVar[Deltas | None] = ContextVar("deltas", default=None)


def current_deltas() -> Deltas | None:
    """Return the deltas of this turn, to which its planner writes; None when nobody follows, and outside of a turn."""
    deltas = _current.get()
    return deltas if deltas is not None and deltas.is_wanted else None


@asynccontextmanager
async def telling(transport: LiveTransport, attempt: Attempt) -> AsyncGenerator[None]:
    """Let the planner that is called in the body find its `Deltas`."""
    deltas = Deltas(transport, attempt)
    token = _current.set(deltas)
    if attempt.attempt > 1 and deltas.is_wanted:
        deltas.begin()
    try:
        yield
    finally:
        _current.reset(token)
        await deltas.close()

"""The writer to which a planner sends its answer while it is generated.

```python
deltas = current_deltas()
if deltas is None:  # no client follows the run
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

__all__ = ["Deltas", "PlanAttempt", "current_deltas", "telling"]

INTERVAL = 0.03
"""Seconds in which pieces are gathered into one delta; the first piece is sent at once."""

MAX_CHARS = 1_000_000
"""Most characters of one attempt that are sent; the complete message is in the plan's result."""

MAX_DELTAS = 20_000
"""Deltas of one attempt after which no further piece is accepted."""

MAX_PARTIAL = 60_000
"""Most characters of the text of a cancelled attempt that are recorded, from its beginning."""

MAX_PIECE = 8_000
"""Most characters of one delta."""

CLOSING = 0.5
"""Seconds that the end of an attempt waits for the deltas that are not sent yet."""


_log = structlog.get_logger("sojourn.live")


@dataclass(frozen=True, slots=True)
class PlanAttempt:
    """One attempt at one plan, to which deltas belong."""

    topic: str
    """The run, as `topic_of` names it."""
    plan: int
    """The number of the plan in the run, from 1."""
    attempt: int
    """The number of the attempt at the plan, from 1."""
    scheduled: datetime
    """When the plan was scheduled, by the server's clock."""
    started: datetime
    """When the attempt started, by the server's clock."""


class Deltas:
    """Takes the pieces of one attempt, and sends them in a task of its own.

    The planner never waits for a subscriber.
    """

    def __init__(self, transport: LiveTransport, attempt: PlanAttempt) -> None:
        self.attempt = attempt
        self._transport = transport
        self._waiting: list[tuple[DeltaKind, str, int, list[str]]] = []
        """The pieces that are not sent yet: kind, tool, index and texts."""
        self._seq = 0
        self._chars = 0
        self._texts: list[str] = []
        self._has_ended = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def text(self, piece: str) -> None:
        """Write a piece of the message."""
        await self._write("text", piece)

    async def thinking(self, piece: str) -> None:
        """Write a piece of the model's thinking."""
        await self._write("thinking", piece)

    async def tool_call(self, name: str, piece: str, *, index: int = 0) -> None:
        """Write a piece of a call's arguments.

        Args:
            name: The tool.
            piece: The next part of the arguments' JSON text.
            index: The number of the call in the plan, from 0.
        """
        await self._write("tool_call", piece, name, index)

    @property
    def partial(self) -> str:
        """The beginning of the message, as far as it was written for subscribers."""
        return "".join(self._texts)[:MAX_PARTIAL]

    @property
    def is_wanted(self) -> bool:
        """Whether further pieces may reach a subscriber."""
        return not self._has_ended.is_set() and self._transport.is_wanted(self.attempt.topic)

    def begin(self) -> None:
        """Mark that the answer begins, or begins again: earlier deltas are obsolete."""
        self._add("begun", "", "", 0)

    async def close(self) -> None:
        """Send the remaining pieces, for at most half a second.

        Later pieces are dropped.
        """
        self._has_ended.set()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=CLOSING)
            self._task.cancel()

    async def _write(self, kind: DeltaKind, piece: str, name: str = "", index: int = 0) -> None:
        if self._has_ended.is_set() or not (piece or name):
            return
        self._chars += len(piece)
        if self._chars > MAX_CHARS or self._seq + len(self._waiting) >= MAX_DELTAS:
            self._has_ended.set()
            return
        if kind == "text":
            self._texts.append(piece)
        for start in range(0, len(piece) or 1, MAX_PIECE):
            self._add(kind, piece[start : start + MAX_PIECE], name, index)
        await asyncio.sleep(0)  # lets `_send` run, even if the planner never awaits anything

    def _add(self, kind: DeltaKind, piece: str, name: str, index: int) -> None:
        last = self._waiting[-1] if self._waiting else None
        if last and last[:3] == (kind, name, index) and sum(map(len, last[3])) + len(piece) <= MAX_PIECE:
            last[3].append(piece)
        else:
            self._waiting.append((kind, name, index, [piece]))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._send(), name=f"deltas of {self.attempt.topic}")

    async def _send(self) -> None:
        while self._waiting:
            if not await self._publish(self._take()):
                self._has_ended.set()
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._has_ended.wait(), INTERVAL)

    async def _publish(self, deltas: Sequence[Delta]) -> bool:
        try:
            return await self._transport.publish(self.attempt.topic, deltas)
        except Exception as error:  # noqa: BLE001 - a user's transport may raise anything, and must not fail a plan
            _log.warning("live_text_failed", reason=f"{type(error).__name__}: {error}"[:200])
            return False

    def _take(self) -> Sequence[Delta]:
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
    """Return the writer of the current attempt at a plan.

    None outside a planner, and if no client follows the run.
    """
    deltas = _current.get()
    return deltas if deltas is not None and deltas.is_wanted else None


@asynccontextmanager
async def telling(transport: LiveTransport, attempt: PlanAttempt) -> AsyncGenerator[Deltas]:
    """Make `current_deltas` return an attempt's writer to the planner in the body."""
    deltas = Deltas(transport, attempt)
    token = _current.set(deltas)
    if attempt.attempt > 1 and deltas.is_wanted:
        deltas.begin()
    try:
        yield deltas
    finally:
        _current.reset(token)
        await deltas.close()

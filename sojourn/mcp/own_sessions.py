"""Own sessions: those of a toolset's owners, tenants or principals, so that none sees what the server keeps for another.

A session is opened by the first call of its owner, and ends when it was idle for a while, or when another owner needs its place.
"""

import asyncio
import contextlib
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

import structlog

from sojourn.contracts.principal import Principal
from sojourn.errors import ToolUnavailable
from sojourn.mcp.line import Line

if TYPE_CHECKING:
    from sojourn.mcp.session import Session

__all__ = ["OwnSessions", "Sharing", "owner_of"]

Sharing = Literal["tenant", "principal", "shared"]
"""Whose calls share a session with a server: those of a tenant, of a principal, or all of a worker."""

RETRY_AFTER = timedelta(seconds=5)
"""When a call is tried again for which no session was free."""

_log = structlog.get_logger("sojourn.mcp")


def owner_of(principal: Principal | None, sharing: Sharing) -> str:
    """Whose session a call needs; empty for the one of all calls without an owner."""
    if principal is None or sharing == "shared":
        return ""
    return principal.tenant if sharing == "tenant" else f"{principal.tenant}\0{principal.subject}"


class _OwnLine(Line):
    def __init__(self, open_session: "Callable[[], Awaitable[Session]]") -> None:
        super().__init__()
        self._new = open_session
        self.calls = 0
        """Calls under way."""
        self.used_at = time.monotonic()

    async def _open_session(self) -> "Session":
        return await self._new()


class OwnSessions:
    """The sessions, at most so many.

    Args:
        toolset_id: The toolset, for logs.
        most: Most sessions at once.
        idle: A session without calls for this long ends.
    """

    def __init__(self, toolset_id: str, most: int, idle: timedelta) -> None:
        self.open_session: Callable[[], Awaitable[Session]] | None = None
        """Opens a session with the server."""
        self._toolset_id = toolset_id
        self._most = most
        self._idle = idle.total_seconds()
        self._lines: OrderedDict[str, _OwnLine] = OrderedDict()
        """By owner; the one that was used longest ago comes first."""
        self._closing: set[asyncio.Task[None]] = set()
        self._sweeper: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """The number of sessions, those included that are being opened."""
        return len(self._lines)

    @contextlib.asynccontextmanager
    async def line(self, owner: str) -> AsyncGenerator[Line]:
        """The line of an owner, for one call.

        Raises:
            ToolUnavailable: There are as many sessions as there may be, and calls in all of them.
        """
        line = self._lines.get(owner)
        if line is None:
            self._make_room()
            assert self.open_session is not None
            line = self._lines[owner] = _OwnLine(self.open_session)
        self._lines.move_to_end(owner)
        line.calls += 1
        try:
            yield line
        finally:
            line.calls -= 1
            line.used_at = time.monotonic()
            self._sweep()

    def _make_room(self) -> None:
        if len(self._lines) < self._most:
            return
        owner = next((owner for owner, line in self._lines.items() if not line.calls), None)
        if owner is None:
            raise ToolUnavailable(
                f"all {self._most} sessions with its MCP server have calls under way", retry_after=RETRY_AFTER
            )
        _log.info("mcp_session_displaced", toolset=self._toolset_id, most=self._most)
        self._end(owner)

    def _end(self, owner: str) -> None:
        task = asyncio.create_task(self._lines.pop(owner).close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _sweep(self) -> None:
        if self._sweeper is None or self._sweeper.done():
            self._sweeper = asyncio.create_task(self._end_idle(), name=f"idle sessions of {self._toolset_id}")

    async def _end_idle(self) -> None:
        while self._lines:
            now = time.monotonic()
            for owner, line in list(self._lines.items()):
                if not line.calls and now - line.used_at >= self._idle:
                    self._end(owner)
            ends = [line.used_at + self._idle for line in self._lines.values() if not line.calls]
            if not ends:
                return  # the next call that ends begins to look again
            await asyncio.sleep(max(min(ends) - time.monotonic(), 0.0))

    async def close(self) -> None:
        """End all sessions."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.wait({self._sweeper})
            self._sweeper = None
        for owner in list(self._lines):
            self._end(owner)
        if self._closing:
            await asyncio.wait(set(self._closing))

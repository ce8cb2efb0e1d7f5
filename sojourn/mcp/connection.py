"""Connection: the one session that all calls of a toolset share, opened again when it is lost."""

import asyncio
import contextvars
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from sojourn.errors import ToolUnavailable

if TYPE_CHECKING:
    from sojourn.mcp.session import Session

__all__ = ["Connection"]

_COOL = 0.5
"""Seconds in which a failure to connect answers for those who ask next."""


class Connection:
    """Holds a session.

    Args:
        open_session: Opens a new one; raises `ToolUnavailable`.
    """

    def __init__(self, open_session: "Callable[[], Awaitable[Session]]") -> None:
        self._open_session = open_session
        self._opening: asyncio.Task[Session] | None = None
        self._held: list[Session] = []
        self._failure: ToolUnavailable | None = None
        self._failed_at = 0.0
        self._context = contextvars.copy_context()

    async def session(self) -> "Session":
        """The session, opened first where there is none; one opener at a time, shared by all who wait.

        Raises:
            ToolUnavailable: the server cannot be reached now; says why.
        """
        if self._held and not self._held[-1].lost.is_set():
            return self._held[-1]
        if self._opening is None or self._opening.done():
            if self._failure is not None and time.monotonic() - self._failed_at < _COOL:
                raise ToolUnavailable(str(self._failure), retry_after=self._failure.retry_after)
            # A session outlives the call that asks for it: its log lines are not that call's.
            self._opening = asyncio.create_task(self._open(), context=self._context.copy())
            self._opening.add_done_callback(_look)
        return await asyncio.shield(self._opening)

    async def _open(self) -> "Session":
        # The old one ends first: a server may hold a lock, and a worker one process.
        await self._close_held()
        try:
            session = await self._open_session()
        except ToolUnavailable as error:
            self._failure, self._failed_at = error, time.monotonic()
            raise
        self._failure = None
        self._held.append(session)
        return session

    async def close(self) -> None:
        """End the session."""
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait({self._opening})
        await self._close_held()

    async def _close_held(self) -> None:
        while self._held:
            await self._held[-1].close()
            self._held.pop()


def _look(opening: "asyncio.Task[Session]") -> None:
    """Look at the outcome, so that one nobody waited for is no warning."""
    if not opening.cancelled():
        opening.exception()

"""Sessions that calls share, one for each owner, tenant or principal."""

import asyncio
import contextlib
import contextvars
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

import structlog

from sojourn.contracts.principal import Principal
from sojourn.contracts.tool_call import ToolInput
from sojourn.errors import ToolUnavailable
from sojourn.mcp.caller import Caller
from sojourn.mcp.errors import SessionRefused

if TYPE_CHECKING:
    from sojourn.mcp.session import OnProgress, ServerSession

__all__ = ["OwnSessions", "SharedSession", "Sharing", "owner_of"]

_COOL = 0.5
"""Seconds after a failed attempt to connect in which callers get its error at once."""


class SharedSession(ABC):
    def __init__(self) -> None:
        self._context = contextvars.Context()
        self._opening: asyncio.Task[ServerSession] | None = None
        self._held: list[ServerSession] = []
        self._failure: ToolUnavailable | None = None
        self._failed_at = 0.0

    @abstractmethod
    async def _open_session(self) -> "ServerSession":
        """Return a new session.

        Raises:
            ToolUnavailable: The server cannot be used now; the message says why.
        """

    def refresh(self) -> None:  # noqa: B027 - a line that lists nothing does nothing
        """Note that a call broke off, so that the server may have changed."""

    async def session(self) -> "ServerSession":
        """Return the session, which the first caller opens for all.

        Raises:
            ToolUnavailable: The server cannot be used now; the message says why.
        """
        if self._held and not self._held[-1].lost.is_set():
            return self._held[-1]
        if self._opening is None or self._opening.done():
            if self._failure is not None and time.monotonic() - self._failed_at < _COOL:
                raise ToolUnavailable(str(self._failure), retry_after=self._failure.retry_after)
            # A session outlives the call that opens it, so its log lines must not have that call's context.
            self._opening = asyncio.create_task(self._open(self._held), context=self._context.copy())
            self._opening.add_done_callback(_retrieve)
        return await asyncio.shield(self._opening)

    async def send(
        self,
        name: str,
        arguments: dict[str, Any],
        on_progress: "OnProgress | None",
        tool_input: ToolInput | None = None,
        caller: Caller | None = None,
    ) -> Any:
        """Call a tool of the server, or continue a call that asked for input.

        A call that the server refuses because it forgot the session is sent once more, on a new session.

        Raises:
            ToolUnavailable: The server cannot be reached, or the connection broke off during the call.
            SojournError: Another error of `sojourn.mcp.errors.translate`.
        """
        for _ in range(2):
            session = await self.session()
            try:
                return await session.call(name, arguments, on_progress, tool_input, caller)
            except SessionRefused:
                continue  # the server did not execute the call, so it is safe to send it again
            except ToolUnavailable:
                self.refresh()
                raise
        raise ToolUnavailable(
            "its MCP server closes each session as soon as it is opened", outcome_unknown=True
        )

    async def close(self) -> None:
        opening, held = self._opening, self._held
        self._opening, self._held = None, []
        if opening is not None:
            opening.cancel()
            await asyncio.wait({opening})
        await close_all(held)

    async def _open(self, held: "list[ServerSession]") -> "ServerSession":
        # The old session ends first: its server process may hold a lock.
        await close_all(held)
        try:
            session = await self._open_session()
        except ToolUnavailable as error:
            self._failure, self._failed_at = error, time.monotonic()
            raise
        self._failure = None
        held.append(session)
        return session


async def close_all(held: "list[ServerSession]") -> None:
    while held:
        await held[-1].close()
        held.pop()


def _retrieve(opening: "asyncio.Task[ServerSession]") -> None:
    """Retrieve the outcome, which asyncio would log if no caller waits any more."""
    if not opening.cancelled():
        opening.exception()


Sharing = Literal["tenant", "principal", "shared"]
RETRY_AFTER = timedelta(seconds=5)
_log = structlog.get_logger("sojourn.mcp")


def owner_of(principal: Principal | None, sharing: Sharing) -> str:
    """Return the owner of the session that a call needs, or an empty text."""
    if principal is None or sharing == "shared":
        return ""
    return principal.tenant if sharing == "tenant" else f"{principal.tenant}\0{principal.subject}"


class _OwnSession(SharedSession):
    def __init__(self, open_session: "Callable[[Caller], Awaitable[ServerSession]]", caller: Caller) -> None:
        super().__init__()
        self._new = open_session
        self.caller = caller
        """That of the last call; a session that opens acts for its principal too."""
        self.calls = 0
        """Calls under way."""
        self.used_at = time.monotonic()

    async def _open_session(self) -> "ServerSession":
        return await self._new(Caller(self.caller.meta))


class OwnSessions:
    """The sessions of owners. The one that is idle for longest makes room."""

    def __init__(self, toolset_id: str, most: int, idle: timedelta) -> None:
        self.open_session: Callable[[Caller], Awaitable[ServerSession]] | None = None
        self._toolset_id = toolset_id
        self._most = most
        self._idle = idle.total_seconds()
        self._lines: OrderedDict[str, _OwnSession] = OrderedDict()
        """By owner; the one that was used longest ago comes first."""
        self._closing: set[asyncio.Task[None]] = set()
        self._sweeper: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._lines)

    @contextlib.asynccontextmanager
    async def line(self, owner: str, caller: Caller | None = None) -> AsyncGenerator[SharedSession]:
        """Yield the session of an owner, for one call.

        Raises:
            ToolUnavailable: There are as many sessions as there may be, and calls in all of them.
        """
        line = self._lines.get(owner)
        if line is None:
            self._make_room()
            assert self.open_session is not None
            line = self._lines[owner] = _OwnSession(self.open_session, caller or Caller())
        self._lines.move_to_end(owner)
        line.caller = caller or line.caller
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
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.wait({self._sweeper})
            self._sweeper = None
        for owner in list(self._lines):
            self._end(owner)
        if self._closing:
            await asyncio.wait(set(self._closing))

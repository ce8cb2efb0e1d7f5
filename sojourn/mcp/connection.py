"""Connection: the one session that all calls of a toolset share, opened again when it is lost.

The server's tools are listed when a session opens, then when the server says that they changed or the
list is old: never for each call or run. A server that is down is a fact to note, not a reason for a
worker not to start.
"""

import asyncio
import contextlib
import contextvars
import importlib
import random
import time
import traceback
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from sojourn.contracts.input_required import ToolInput
from sojourn.errors import ToolUnavailable
from sojourn.mcp.errors import SessionRefused
from sojourn.mcp.transports import Transport

if TYPE_CHECKING:
    from sojourn.mcp.session import OnProgress, Session

__all__ = ["Connection"]

_log = structlog.get_logger("sojourn.mcp")

_COOL = 0.5
"""Seconds in which a failure to connect answers for those who ask next."""

_FIRST_DELAY = 0.5
_LONGEST_DELAY = 30.0
_BRIEF = 10.0
"""Seconds; a session that was lost sooner counts as a failure to open one."""

_CALM = 1.0
"""Seconds between two listings, however often a server says that its tools changed."""


class Connection:
    """Holds a session, and keeps it open and the list of tools fresh from `start` to `close`.

    Args:
        toolset_id: For logs.
        transport: Where the server is.
        ttl: How old the list of tools may grow without a word from the server.
        connect_timeout: For reaching the server.
        take_list: Takes over the tools that a session lists, and tells how many there are.
        on_drop: Told the name of a listed tool that is no tool, and why.
    """

    def __init__(
        self,
        toolset_id: str,
        transport: Transport,
        *,
        ttl: timedelta,
        connect_timeout: timedelta,
        take_list: "Callable[[Session], Awaitable[int]]",
        on_drop: Callable[[str, str], None],
    ) -> None:
        self.transport = transport
        """Where the server is; another one counts from the next session on."""
        self.unavailable: str | None = None
        """Why the server cannot be used now."""
        self._toolset_id = toolset_id
        self._ttl = ttl.total_seconds()
        self._connect_timeout = connect_timeout
        self._take_list = take_list
        self._on_drop = on_drop
        self._listed_at = float("-inf")
        self._stale = asyncio.Event()
        self._tried = asyncio.Event()
        self._context = contextvars.Context()
        self._keeper: asyncio.Task[None] | None = None
        self._opening: asyncio.Task[Session] | None = None
        self._held: list[Session] = []
        self._failure: ToolUnavailable | None = None
        self._failed_at = 0.0

    @property
    def secrets(self) -> tuple[str, ...]:
        """What the server is given in confidence."""
        return self.transport.secrets

    def start(self) -> None:
        """Begin to keep a session, in the running event loop, where that has not begun."""
        if self._keeper is None:
            self._stale, self._tried = asyncio.Event(), asyncio.Event()
            self._failure = None
            self._context = contextvars.copy_context()
            self._keeper = asyncio.create_task(self._keep(), name=f"keep {self._toolset_id}")

    async def open(self) -> None:
        """Connect and list the tools, waiting at most `connect_timeout`."""
        self.start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._connect_timeout.total_seconds() + _CALM):
                await self._tried.wait()

    async def close(self) -> None:
        """End the session, and a server that was started for it."""
        tasks = {task for task in (self._keeper, self._opening) if task is not None}
        held = self._held
        self._keeper, self._opening, self._held = None, None, []
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await _close_all(held)

    def refresh(self) -> None:
        """List the tools again, soon, in the background."""
        self._stale.set()

    async def session(self) -> "Session":
        """The session, opened first where there is none; one opener at a time, shared by all who wait.

        Raises:
            ToolUnavailable: the server cannot be reached now; says why.
        """
        self.start()
        if self._held and not self._held[-1].lost.is_set():
            return self._held[-1]
        if self._opening is None or self._opening.done():
            if self._failure is not None and time.monotonic() - self._failed_at < _COOL:
                raise ToolUnavailable(str(self._failure), retry_after=self._failure.retry_after)
            # A session outlives the call that asks for it: its log lines are not that call's.
            self._opening = asyncio.create_task(self._open(self._held), context=self._context.copy())
            self._opening.add_done_callback(_look)
        return await asyncio.shield(self._opening)

    async def send(
        self,
        name: str,
        arguments: dict[str, Any],
        on_progress: "OnProgress | None",
        given: ToolInput | None = None,
    ) -> Any:
        """Call a tool of the server, or go on with a call that asked for input, on a session opened again where it had to be.

        Raises:
            ToolUnavailable: the server cannot be reached, or broke off in the middle.
            SojournError: what else `sojourn.mcp.errors` knows.
        """
        for _ in range(2):
            session = await self.session()
            try:
                return await session.call(name, arguments, on_progress, given)
            except SessionRefused:
                continue  # the server has not looked at the call, so a second try is no repetition
            except ToolUnavailable:
                self.refresh()
                raise
        raise ToolUnavailable("its MCP server closes each session as soon as it is opened")

    async def _open(self, held: "list[Session]") -> "Session":
        # The old one ends first: a server may hold a lock, and a worker one process.
        await _close_all(held)
        try:
            session = await self._open_session()
        except ToolUnavailable as error:
            self._failure, self._failed_at = error, time.monotonic()
            raise
        self._failure = None
        held.append(session)
        return session

    async def _open_session(self) -> "Session":
        # Loads the SDK, which takes about a second, while the worker goes on.
        try:
            module = await asyncio.to_thread(importlib.import_module, "sojourn.mcp.session")
        except ModuleNotFoundError as error:
            raise ToolUnavailable(
                f"the MCP SDK is not installed here (no module {error.name!r}): pip install 'sojourn[mcp]'"
            ) from error
        session: Session = module.Session(
            self._toolset_id, self.transport, on_change=self.refresh, on_drop=self._on_drop
        )
        try:
            await session.open(self._connect_timeout)
            await self._list(session)
        except BaseException:
            await session.close()
            raise
        return session

    async def _list(self, session: "Session") -> None:
        self._stale.clear()
        try:
            count = await self._take_list(session)
        except Exception:
            self._stale.set()
            raise
        self._listed_at = time.monotonic()
        if self.unavailable:
            _log.info("mcp_server_available", toolset=self._toolset_id, tools=count)
        self.unavailable = None

    @property
    def _age(self) -> float:
        """Seconds since the server last listed its tools."""
        return time.monotonic() - self._listed_at

    async def _keep(self) -> None:
        delay = _FIRST_DELAY
        while True:
            try:
                session = await self.session()
                if self._stale.is_set() or self._age >= self._ttl:
                    await self._list(session)
            except ToolUnavailable as error:
                self._note(str(error))
            except Exception as error:  # noqa: BLE001
                # A fault of ours that a server brought about: its tools are gone, the others are not.
                # No traceback, whose locals some renderers show: headers are among them.
                frame = traceback.extract_tb(error.__traceback__)[-1]
                at = f"{Path(frame.filename).name}:{frame.lineno}"
                _log.error("mcp_toolset_failed", toolset=self._toolset_id, error=type(error).__name__, at=at)
                self._note("its MCP server says something that cannot be read")
            else:
                if await self._until_due(session):
                    delay = _FIRST_DELAY
                    continue
            self._tried.set()
            jitter = random.uniform(0.8, 1.2)  # noqa: S311 - spreads workers, guards nothing
            await asyncio.sleep(delay * jitter)
            delay = min(delay * 2, _LONGEST_DELAY)

    async def _until_due(self, session: "Session") -> bool:
        """Wait for a reason to list or to connect again; False where the session was lost at once."""
        self._tried.set()
        since = time.monotonic()
        waits = {asyncio.create_task(each.wait()) for each in (self._stale, session.lost)}
        try:
            left = max(self._ttl - self._age, 0.0)
            await asyncio.wait(waits, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
        if session.lost.is_set():
            return time.monotonic() - since > _BRIEF
        await asyncio.sleep(max(_CALM - self._age, 0.0))
        return True

    def _note(self, why: str) -> None:
        if why != self.unavailable:
            server = repr(self.transport)
            _log.warning("mcp_server_unavailable", toolset=self._toolset_id, server=server, reason=why)
        self.unavailable = why


async def _close_all(held: "list[Session]") -> None:
    while held:
        await held[-1].close()
        held.pop()


def _look(opening: "asyncio.Task[Session]") -> None:
    """Look at the outcome, so that one nobody waited for is no warning."""
    if not opening.cancelled():
        opening.exception()

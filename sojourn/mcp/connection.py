"""Connection: the one session that all calls of a toolset share, opened again when it is lost.

The server's tools are listed when a session opens, when the server says that they changed, and when the
list reaches its maximum age; not for each call or run. A worker starts and continues without its server.
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
"""Seconds after a failed attempt to connect in which further callers get its error, without another attempt."""

_FIRST_DELAY = 0.5
_LONGEST_DELAY = 30.0
_BRIEF = 10.0
"""Seconds after a listing; a session lost sooner is opened again only after a delay, like one that failed to open."""

_CALM = 1.0
"""Least seconds between two listings, however often a server says that its tools changed."""


class Connection:
    """Keeps a session open and the list of tools fresh, from `start` to `close`.

    Args:
        toolset_id: The toolset, for logs.
        transport: How to reach the server.
        ttl: Maximum age of the list of tools.
        connect_timeout: Time limit for opening a session, without listing its tools.
        take_list: Lists and stores the tools of a session, and returns their number.
        on_drop: Called with the name of a listed tool that cannot be used, and the reason.
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
        """How to reach the server; a new value takes effect with the next session."""
        self.unavailable: str | None = None
        """Why the server cannot be used now; None when it can."""
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
        """The transport's secrets."""
        return self.transport.secrets

    def start(self) -> None:
        """Start the task that keeps the session, in the running event loop, unless it runs already."""
        if self._keeper is None:
            self._stale, self._tried = asyncio.Event(), asyncio.Event()
            self._failure = None
            self._context = contextvars.copy_context()
            self._keeper = asyncio.create_task(self._keep(), name=f"keep {self._toolset_id}")

    async def open(self) -> None:
        """Start, and wait for the first attempt to connect and list: at most `connect_timeout` and 1 s.

        A failed attempt is noted in `unavailable`, and repeated in the background.
        """
        self.start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._connect_timeout.total_seconds() + _CALM):
                await self._tried.wait()

    async def close(self) -> None:
        """Stop the tasks and end the session, with a server process that was started for it."""
        tasks = {task for task in (self._keeper, self._opening) if task is not None}
        held = self._held
        self._keeper, self._opening, self._held = None, None, []
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await _close_all(held)

    def refresh(self) -> None:
        """Have the tools listed again in the background, at least 1 s after the last listing."""
        self._stale.set()

    async def session(self) -> "Session":
        """Return the session; open one if there is none, in one attempt that all callers share.

        Raises:
            ToolUnavailable: The server cannot be used now; the message says why.
        """
        self.start()
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
    ) -> Any:
        """Call a tool of the server, or continue a call that asked for input; return the SDK's result.

        A call that the server refuses because it forgot the session is sent once more, on a new session.

        Args:
            name: The tool's name at the server.
            arguments: The valid arguments.
            on_progress: Called with each progress notification.
            tool_input: The responses to the input that the call asked for.

        Raises:
            ToolUnavailable: The server cannot be reached, or the connection broke off during the call.
            SojournError: Another error of `sojourn.mcp.errors.translate`.
        """
        for _ in range(2):
            session = await self.session()
            try:
                return await session.call(name, arguments, on_progress, tool_input)
            except SessionRefused:
                continue  # the server did not execute the call, so it is safe to send it again
            except ToolUnavailable:
                self.refresh()
                raise
        raise ToolUnavailable("its MCP server closes each session as soon as it is opened")

    async def _open(self, held: "list[Session]") -> "Session":
        # The old session ends first: its server process may hold a lock.
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
        # In a thread: loading the SDK takes about a second.
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
        """Seconds since the tools were last listed."""
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
                # A fault of this code that a server's data caused: only this toolset must suffer from it.
                # No traceback is logged: some renderers show its locals, and those include headers.
                frame = traceback.extract_tb(error.__traceback__)[-1]
                at = f"{Path(frame.filename).name}:{frame.lineno}"
                _log.error("mcp_toolset_failed", toolset=self._toolset_id, error=type(error).__name__, at=at)
                self._note("its MCP server sends something that cannot be processed")
            else:
                if await self._until_due(session):
                    delay = _FIRST_DELAY
                    continue
            self._tried.set()
            jitter = random.uniform(0.8, 1.2)  # noqa: S311 - spreads workers, guards nothing
            await asyncio.sleep(delay * jitter)
            delay = min(delay * 2, _LONGEST_DELAY)

    async def _until_due(self, session: "Session") -> bool:
        """Wait until a listing is due or the session is lost; False if it was lost within `_BRIEF` seconds."""
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


def _retrieve(opening: "asyncio.Task[Session]") -> None:
    """Retrieve the outcome, so that asyncio does not warn of an exception that no caller waited for."""
    if not opening.cancelled():
        opening.exception()

"""The session that lists a server's tools, and the sessions for its calls.

Tools are listed when a session opens, when the server says that they changed, and when the list reaches its
maximum age; not for each call or run. A worker starts and continues without its server.
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

from sojourn.contracts.tool_call import ToolInput
from sojourn.errors import ToolUnavailable
from sojourn.mcp.caller import Caller, Credentials
from sojourn.mcp.errors import SignInRequired
from sojourn.mcp.limits import MAX_SESSIONS, SESSION_IDLE
from sojourn.mcp.own_sessions import OwnSessions, SharedSession, Sharing, owner_of
from sojourn.mcp.transports import Transport

if TYPE_CHECKING:
    from sojourn.mcp.session import OnProgress, ServerSession

__all__ = ["ServerConnection"]

_log = structlog.get_logger("sojourn.mcp")

_FIRST_DELAY = 0.5
_LONGEST_DELAY = 30.0
_BRIEF = 10.0
"""Seconds after a listing; a session lost sooner is opened again only after a delay."""

_CALM = 1.0
"""Least seconds between two listings, however often a server says that its tools changed."""


class ServerConnection(SharedSession):
    """Keeps a session open and the list of tools fresh, from `start` to `close`."""

    def __init__(
        self,
        toolset_id: str,
        transport: Transport,
        *,
        ttl: timedelta,
        connect_timeout: timedelta,
        take_list: "Callable[[ServerSession], Awaitable[int]]",
        on_drop: Callable[[str, str], None],
        others: OwnSessions | None = None,
        sharing: Sharing | None = None,
    ) -> None:
        super().__init__()
        self.transport = transport
        """A new value takes effect with the next session, and HTTP 401 ends one."""
        self.unavailable: str | None = None
        self._toolset_id = toolset_id
        self._ttl = ttl.total_seconds()
        self._connect_timeout = connect_timeout
        self._take_list = take_list
        self._on_drop = on_drop
        self._listed_at = float("-inf")
        self._stale = asyncio.Event()
        self._tried = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._sharing: Sharing | None = sharing
        self._others = OwnSessions(toolset_id, MAX_SESSIONS, SESSION_IDLE) if others is None else others
        self._others.open_session = self._new_session

    @property
    def secrets(self) -> tuple[str, ...]:
        return self.transport.secrets

    @property
    def sharing(self) -> Sharing:
        """Whose calls share a session. A principal's, if callers have credentials."""
        credentials: Credentials | None = getattr(self.transport, "credentials", None)
        by_caller = credentials is not None and credentials.differs_by_caller
        return self._sharing or ("principal" if by_caller else "tenant")

    def start(self) -> None:
        if self._keeper is None:
            self._stale, self._tried = asyncio.Event(), asyncio.Event()
            self._failure = None
            self._context = contextvars.copy_context()
            self._keeper = asyncio.create_task(self._keep(), name=f"keep {self._toolset_id}")

    async def open(self) -> None:
        """Start, and wait at most `connect_timeout` and 1 s to connect and list.

        A failed attempt is noted in `unavailable`, and repeated in the background.
        """
        self.start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._connect_timeout.total_seconds() + _CALM):
                await self._tried.wait()

    async def close(self) -> None:
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.wait({keeper})
        await self._others.close()
        await super().close()

    def refresh(self) -> None:
        """List the tools again in the background, at least 1 s after the last time."""
        self._stale.set()

    async def session(self) -> "ServerSession":
        self.start()
        return await super().session()

    async def send_for(
        self,
        caller: Caller,
        name: str,
        arguments: dict[str, Any],
        on_progress: "OnProgress | None",
        tool_input: ToolInput | None = None,
    ) -> Any:
        """Call a tool in the session of the caller's owner, or else in the listing one."""
        owner = owner_of(caller.meta and caller.meta.principal, self.sharing)
        if not owner:
            return await self.send(name, arguments, on_progress, tool_input, caller)
        self.start()
        async with self._others.line(owner, caller) as line:
            return await line.send(name, arguments, on_progress, tool_input, caller)

    async def session_for(self, caller: Caller, use: "Callable[[ServerSession], Awaitable[None]]") -> None:
        """Use the session of the caller's owner.

        Raises:
            SignInRequired: The principal has to sign in first.
            ToolUnavailable: The server cannot be used now; the message says why.
        """
        owner = owner_of(caller.meta and caller.meta.principal, self.sharing)
        if not owner:
            await use(await self.session())
            return
        self.start()
        async with self._others.line(owner, caller) as line:
            await use(await line.session())

    async def _open_session(self) -> "ServerSession":
        session = await self._new_session(Caller())
        try:
            await self._list(session)
        except BaseException:
            await session.close()
            raise
        return session

    async def _new_session(self, caller: Caller) -> "ServerSession":
        # In a thread: loading the SDK takes about a second.
        try:
            module = await asyncio.to_thread(importlib.import_module, "sojourn.mcp.session")
        except ModuleNotFoundError as error:
            raise ToolUnavailable(
                f"the MCP SDK is not installed here (no module {error.name!r}): pip install 'sojourn[mcp]'"
            ) from error
        session: ServerSession = module.ServerSession(
            self._toolset_id,
            self.transport,
            on_change=self.refresh,
            on_drop=self._on_drop,
            current_transport=lambda: self.transport,
            caller=caller,
        )
        try:
            await session.open(self._connect_timeout)
        except BaseException:
            await session.close()
            raise
        return session

    async def _list(self, session: "ServerSession") -> None:
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
            except SignInRequired:
                # Only its users see the tools, each in a session of their own.
                self.unavailable, delay = None, self._ttl
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

    async def _until_due(self, session: "ServerSession") -> bool:
        """Wait until a listing is due. Return False if the session was lost soon."""
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

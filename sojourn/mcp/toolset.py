"""McpToolset: the tools of a server, found while the worker runs, and the session that calls them.

Listed once when a session opens, then when the server says that they changed or the list is
old: never for each call or run. A server that is down is a fact to note, not a reason for a
worker not to start.
"""

import asyncio
import contextlib
import importlib
import random
import time
import traceback
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from sojourn.contracts.ids import TOOLSET_ID, ToolId
from sojourn.contracts.input_required import ToolInput
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_spec import Retry
from sojourn.core.values.timers import duration_fault
from sojourn.errors import DefinitionError, ToolUnavailable
from sojourn.mcp.catalogue import Catalogue
from sojourn.mcp.confirming import check_confirmation, unmatched
from sojourn.mcp.connection import Connection
from sojourn.mcp.faults import SessionRefused
from sojourn.mcp.limits import CONNECT_TIMEOUT, TTL
from sojourn.mcp.progress import OnProgress
from sojourn.mcp.taking import Terms, spec_of, stand_in
from sojourn.mcp.tool import McpTool
from sojourn.mcp.transports import Transport

if TYPE_CHECKING:
    from sojourn.mcp.session import Session

__all__ = ["McpToolset"]

_log = structlog.get_logger("sojourn.mcp")

_FIRST_DELAY = 0.5
_LONGEST_DELAY = 30.0
_BRIEF = 10.0
"""Seconds; a session that was lost sooner counts as a failure to open one."""

_CALM = 1.0
"""Seconds between two listings, however often a server says that its tools changed."""


class McpToolset:
    """The tools of an MCP server (SR-12).

    Args:
        id: `<service>.<toolset>`.
        transport: `mcp.Stdio`, `mcp.Http` or `mcp.Sse`.
        description: For catalogues.
        task_queue: Where its tools run; the run's own queue when left out.
        timeout: Time limit of each call; the policy's when left out.
        retry: How often transient faults are retried.
        ttl: How old the list of tools may grow without a word from the server.
        connect_timeout: For reaching the server, and for `open` in all.
        include: Names or patterns (`read_*`) of the tools to take; all when left out.
        exclude: Names or patterns of tools to leave.
        trusted: Whether the server's own word on what a tool does (`read_only`, `destructive`) counts
            when it is decided who is asked before a call; it shows in the catalogue either way.
        confirmation: Name or pattern of a tool to what a person is asked before each call, such as
            `{"delete_*": "Delete {path}?"}`; fields are filled in. A name goes before a pattern, and
            of patterns the first that fits counts.
        bounded: Names or patterns of the tools whose structured results are bounded views, and say so in
            `returned`, `total`, `truncated` (SR-22).

    Raises:
        DefinitionError: the id has another form, a duration is not above zero, `trusted` is no bool,
            `confirmation` no names with sentences, or `bounded` one text.
    """

    def __init__(
        self,
        id: str,
        *,
        transport: Transport,
        description: str = "",
        task_queue: str | None = None,
        timeout: timedelta | None = None,
        retry: Retry | None = None,
        ttl: timedelta = TTL,
        connect_timeout: timedelta = CONNECT_TIMEOUT,
        include: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        trusted: bool = False,
        confirmation: Mapping[str, str] | None = None,
        bounded: Sequence[str] = (),
    ) -> None:
        if not TOOLSET_ID.match(id):
            raise DefinitionError(f"toolset {id!r}: an id has the form <service>.<toolset>")
        for name, duration in (("timeout", timeout), ("ttl", ttl), ("connect_timeout", connect_timeout)):
            if fault := duration_fault(name, duration):
                raise DefinitionError(f"toolset {id}: {fault}")
        confirmation = {} if confirmation is None else confirmation
        check_confirmation(id, trusted=trusted, confirmation=confirmation)
        if isinstance(bounded, str):
            raise DefinitionError(f"toolset {id}: bounded takes a list of names or patterns: [{bounded!r}]")
        self.id = id
        self.transport = transport
        self.description = description
        self.task_queue = task_queue
        self.unavailable: str | None = None
        """Why the server cannot be used now."""
        self._ttl = ttl.total_seconds()
        self._connect_timeout = connect_timeout
        terms = self._terms = Terms(
            timeout=timeout,
            retry=retry or Retry(),
            task_queue=task_queue,
            trusted=trusted,
            confirmation=dict(confirmation),
            bounded=tuple(bounded),
        )
        self._catalogue = Catalogue(
            id,
            spec_of=lambda tool: spec_of(id, tool, **terms),
            tool_of=lambda spec: McpTool(spec, self),
            include=include,
            exclude=exclude,
        )
        self._unused: dict[str, list[str]] = {}
        self._connection: Connection | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._stale = asyncio.Event()
        self._tried = asyncio.Event()

    @property
    def tools(self) -> Mapping[str, McpTool]:
        """The tools known now, by bare name; replaced as a whole."""
        return self._catalogue.tools

    def __getitem__(self, name: str) -> McpTool:
        """The tool of this name; one that stands in for it where the server was never reached.

        Raises:
            KeyError: the server lists no such tool, or the name can be none.
        """
        if self._catalogue.is_known:
            return self.tools[name]
        try:
            spec = stand_in(self.id, name, **self._terms)
        except ValueError:
            raise KeyError(name) from None
        return McpTool(spec, self, is_known=False)

    def call(self, name: str, /, **fields: Any) -> ToolRequest:
        """A request to a tool of this set, whether or not it is known yet."""
        return ToolRequest(name=f"{self.id}.{name}", payload=fields)

    def ids(self) -> list[ToolId]:
        """The ids of the tools known now."""
        return [tool.id for tool in self.tools.values()]

    async def open(self) -> None:
        """Connect and list the tools, in the running event loop, waiting at most `connect_timeout`.

        A server that is down or broken is noted in `unavailable` and tried again in the background.
        """
        self._start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._connect_timeout.total_seconds() + _CALM):
                await self._tried.wait()

    async def close(self) -> None:
        """End the session, and a server that was started for it."""
        keeper, self._keeper = self._keeper, None
        connection, self._connection = self._connection, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.wait({keeper})
        if connection is not None:
            await connection.close()

    def refresh(self) -> None:
        """List the tools again, soon, in the background."""
        self._stale.set()

    async def discovered(self, name: str) -> McpTool | None:
        """The tool of this name once the server has been reached; None where it has no such tool.

        Raises:
            ToolUnavailable: the server cannot be reached.
        """
        await self._start().session()
        return self.tools.get(name)

    async def send(
        self,
        name: str,
        arguments: dict[str, Any],
        on_progress: OnProgress | None,
        given: ToolInput | None = None,
    ) -> Any:
        """Call a tool of the server, or go on with a call that asked for input, on a session opened again where it had to be.

        Raises:
            ToolUnavailable: the server cannot be reached, or broke off in the middle.
            SojournError: what else `sojourn.mcp.faults` knows.
        """
        connection = self._start()
        for _ in range(2):
            session = await connection.session()
            try:
                return await session.call(name, arguments, on_progress, given)
            except SessionRefused:
                continue  # it has not looked at the call, so a second try is no repetition
            except ToolUnavailable:
                self.refresh()
                raise
        raise ToolUnavailable("its MCP server forgets our session at once")

    def _start(self) -> Connection:
        if self._connection is None:
            self._stale, self._tried = asyncio.Event(), asyncio.Event()
            self._connection = Connection(self._open_session)
            self._keeper = asyncio.create_task(self._keep(self._connection), name=f"keep {self.id}")
        return self._connection

    async def _open_session(self) -> "Session":
        # Loads the SDK, which takes about a second, while the worker goes on.
        try:
            session_module = await asyncio.to_thread(importlib.import_module, "sojourn.mcp.session")
        except ModuleNotFoundError as error:
            raise ToolUnavailable(
                f"the MCP SDK is not installed here (no module {error.name!r}): pip install 'sojourn[mcp]'"
            ) from error
        session: Session = session_module.Session(
            self.id, self.transport, on_change=self.refresh, on_drop=self._catalogue.warn
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
            await self._catalogue.refresh(session)
        except Exception:
            self._stale.set()
            raise
        self._note(None)
        bounded = [name for name, tool in self.tools.items() if tool.spec.bounded]
        self._tell_unused("mcp_confirmation_unused", unmatched(self._terms["confirmation"], self.tools))
        self._tell_unused("mcp_bounded_unused", unmatched(self._terms["bounded"], bounded))

    def _tell_unused(self, event: str, names: list[str]) -> None:
        if names and names != self._unused.get(event):
            _log.warning(event, toolset=self.id, names=names)
        self._unused[event] = names

    async def _keep(self, connection: Connection) -> None:
        """Keep a session open and the list fresh, for as long as the toolset is."""
        delay = _FIRST_DELAY
        while True:
            try:
                session = await connection.session()
                if self._stale.is_set() or self._catalogue.age >= self._ttl:
                    await self._list(session)
            except ToolUnavailable as error:
                self._note(str(error))
            except Exception as error:  # noqa: BLE001
                # A fault of ours that a server brought about: its tools are gone, the others are not.
                # No traceback, whose locals some renderers show: headers are among them.
                frame = traceback.extract_tb(error.__traceback__)[-1]
                at = f"{Path(frame.filename).name}:{frame.lineno}"
                _log.error("mcp_toolset_failed", toolset=self.id, error=type(error).__name__, at=at)
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
            left = max(self._ttl - self._catalogue.age, 0.0)
            await asyncio.wait(waits, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
        if session.lost.is_set():
            return time.monotonic() - since > _BRIEF
        await asyncio.sleep(max(_CALM - self._catalogue.age, 0.0))
        return True

    def _note(self, why: str | None) -> None:
        if why and why != self.unavailable:
            _log.warning("mcp_server_unavailable", toolset=self.id, server=repr(self.transport), reason=why)
        elif self.unavailable and not why:
            _log.info("mcp_server_available", toolset=self.id, tools=len(self.tools))
        self.unavailable = why

    def __repr__(self) -> str:
        """Its id and the kind of its transport."""
        return f"<McpToolset {self.id} {self.transport!r}>"

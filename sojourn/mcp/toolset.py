"""McpToolset: an MCP server declared as a toolset, whose tools are found while the worker runs."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import structlog

from sojourn.contracts.ids import TOOLSET_ID, ToolId
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_spec import Retry
from sojourn.core.values.timers import duration_fault
from sojourn.errors import DefinitionError
from sojourn.mcp.catalogue import Catalogue
from sojourn.mcp.connection import Connection
from sojourn.mcp.limits import CONNECT_TIMEOUT, TTL
from sojourn.mcp.spec_from_listing import Terms, check_terms, stand_in_spec, unmatched
from sojourn.mcp.tool import McpTool
from sojourn.mcp.transports import Transport

if TYPE_CHECKING:
    from sojourn.mcp.session import Session

__all__ = ["McpToolset"]

_log = structlog.get_logger("sojourn.mcp")


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
            raise DefinitionError(f"toolset {id!r}: the id must have the form <service>.<toolset>")
        for name, duration in (("timeout", timeout), ("ttl", ttl), ("connect_timeout", connect_timeout)):
            if fault := duration_fault(name, duration):
                raise DefinitionError(f"toolset {id}: {fault}")
        confirmation = {} if confirmation is None else confirmation
        check_terms(id, trusted=trusted, confirmation=confirmation, bounded=bounded)
        self.id = id
        self.description = description
        self.task_queue = task_queue
        self._terms = Terms(
            timeout=timeout,
            retry=retry or Retry(),
            task_queue=task_queue,
            trusted=trusted,
            confirmation=dict(confirmation),
            bounded=tuple(bounded),
        )
        self._connection = Connection(
            id,
            transport,
            ttl=ttl,
            connect_timeout=connect_timeout,
            take_list=self._take_list,
            on_drop=lambda name, why: self._catalogue.warn(name, why),  # noqa: PLW0108 - the catalogue comes after
        )
        self._catalogue = Catalogue(id, self._terms, self._connection, include=include, exclude=exclude)
        self._unused: dict[str, list[str]] = {}

    @property
    def transport(self) -> Transport:
        """Where the server is; another one, such as a test's, counts from the next session on."""
        return self._connection.transport

    @transport.setter
    def transport(self, transport: Transport) -> None:
        self._connection.transport = transport

    @property
    def tools(self) -> Mapping[str, McpTool]:
        """The tools known now, by bare name; replaced as a whole."""
        return self._catalogue.tools

    @property
    def unavailable(self) -> str | None:
        """Why the server cannot be used now."""
        return self._connection.unavailable

    def __getitem__(self, name: str) -> McpTool:
        """The tool of this name; one that stands in for it where the server was never reached.

        Raises:
            KeyError: the server lists no such tool, or the name can be none.
        """
        if self._catalogue.is_known:
            return self.tools[name]
        try:
            spec = stand_in_spec(self.id, name, self._terms)
        except ValueError:
            raise KeyError(name) from None
        return McpTool(spec, self._connection, known=lambda: self.tools)

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
        await self._connection.open()

    async def close(self) -> None:
        """End the session, and a server that was started for it."""
        await self._connection.close()

    def refresh(self) -> None:
        """List the tools again, soon, in the background."""
        self._connection.refresh()

    async def _take_list(self, session: "Session") -> int:
        await self._catalogue.refresh(session)
        bounded = [name for name, tool in self.tools.items() if tool.spec.bounded]
        self._warn_unused("mcp_confirmation_unused", unmatched(self._terms.confirmation, self.tools))
        self._warn_unused("mcp_bounded_unused", unmatched(self._terms.bounded, bounded))
        return len(self.tools)

    def _warn_unused(self, event: str, names: list[str]) -> None:
        if names and names != self._unused.get(event):
            _log.warning(event, toolset=self.id, names=names)
        self._unused[event] = names

    def __repr__(self) -> str:
        """Its id and the kind of its transport."""
        return f"<McpToolset {self.id} {self.transport!r}>"

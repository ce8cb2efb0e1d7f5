"""Catalogue: the tools of a server by its last listing, replaced as a whole or not at all."""

import asyncio
from collections.abc import Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import structlog

from sojourn.core.values.text import plain
from sojourn.errors import SojournError, ToolUnavailable
from sojourn.mcp.connection import Connection
from sojourn.mcp.limits import LIST_TIMEOUT, MAX_PAGES, MAX_TOOLS
from sojourn.mcp.spec_from_listing import Terms, matches_any, spec_from_listing
from sojourn.mcp.text import masked
from sojourn.mcp.tool import McpTool
from sojourn.serving.off_loop import run_in_thread

if TYPE_CHECKING:
    from mcp_types import Tool

    from sojourn.mcp.session import Session

__all__ = ["Catalogue"]

_log = structlog.get_logger("sojourn.mcp")

_MAX_WARNINGS = 1_000
"""Most different warnings about a server's tools."""

_MAX_NAME = 100
_MAX_REASON = 300


class Catalogue:
    """The tools that a server lists, without those that are excluded or cannot be used.

    Args:
        toolset_id: `<service>.<toolset>`.
        terms: What the app declares for all tools of the toolset.
        connection: Sends the calls of the tools.
        include: Names or patterns of the tools to use; all when None.
        exclude: Names or patterns of the tools to leave out.
    """

    def __init__(
        self,
        toolset_id: str,
        terms: Terms,
        connection: Connection,
        *,
        include: Sequence[str] | None,
        exclude: Sequence[str],
    ) -> None:
        self.tools: MappingProxyType[str, McpTool] = MappingProxyType({})
        self.is_known = False
        """Whether the server has listed its tools."""
        self._toolset_id = toolset_id
        self._terms = terms
        self._connection = connection
        self._include = include
        self._exclude = exclude
        self._warned: set[tuple[str, str]] = set()

    async def refresh(self, session: "Session") -> None:
        """List the server's tools, and replace the old list; if listing fails, the old list stays.

        Raises:
            ToolUnavailable: The server cannot be reached, or listing failed and there is no old list.
        """
        try:
            async with asyncio.timeout(LIST_TIMEOUT.total_seconds()):
                listed, is_cut = await _list_tools(session)
        except (SojournError, TimeoutError) as error:
            text = str(error) or "it does not answer in time"
            if isinstance(error, ToolUnavailable):
                raise
            if not self.is_known:
                raise ToolUnavailable(f"its MCP server does not list its tools: {text}") from None
            self.warn("tools/list", text)
        else:
            if is_cut:
                self.warn("tools/list", f"only the first {len(listed)} tools are taken")
            self.tools = MappingProxyType(await run_in_thread(lambda: self._tools_of(listed)))
            self.is_known = True

    def _tools_of(self, listed: "Sequence[Tool]") -> dict[str, McpTool]:
        found: dict[str, McpTool] = {}
        for tool in listed:
            if not self._is_wanted(tool.name):
                continue
            try:
                spec = spec_from_listing(self._toolset_id, tool, self._terms)
            except ValueError as error:
                self.warn(tool.name, str(error))
                continue
            known = self.tools.get(tool.name)
            # A tool that has not changed keeps its compiled schema.
            found[tool.name] = known if known and known.spec == spec else McpTool(spec, self._connection)
        return found

    def _is_wanted(self, name: str) -> bool:
        is_included = self._include is None or matches_any(name, self._include)
        return is_included and not matches_any(name, self._exclude)

    def warn(self, name: str, why: str) -> None:
        """Log once why a tool of the server is left out; both texts may be the server's."""
        secrets = self._connection.secrets
        name, why = plain(masked(name, secrets), _MAX_NAME), plain(masked(why, secrets), _MAX_REASON)
        if (name, why) not in self._warned and len(self._warned) < _MAX_WARNINGS:
            self._warned.add((name, why))
            _log.warning("mcp_tool_skipped", toolset=self._toolset_id, tool=name, reason=why)


async def _list_tools(session: "Session") -> "tuple[list[Tool], bool]":
    """Return the tools that a server lists, each name once, and whether the list was cut at `MAX_TOOLS` or `MAX_PAGES`.

    Raises:
        SojournError: A page could not be read.
    """
    found: dict[str, Tool] = {}
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(MAX_PAGES):
        page = await session.page(cursor)
        for tool in page.tools:
            if len(found) == MAX_TOOLS and tool.name not in found:
                return list(found.values()), True
            found.setdefault(tool.name, tool)
        cursor = page.next_cursor
        if cursor is None or cursor in seen:
            return list(found.values()), False
        seen.add(cursor)
    return list(found.values()), True

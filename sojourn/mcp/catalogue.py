"""Catalogue: the tools of a server as they are known now, replaced as a whole or not at all."""

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
from sojourn.mcp.tool import McpTool
from sojourn.serving.off_loop import aside

if TYPE_CHECKING:
    from mcp_types import Tool

    from sojourn.mcp.session import Session

__all__ = ["Catalogue"]

_log = structlog.get_logger("sojourn.mcp")

_MAX_WARNINGS = 1_000


class Catalogue:
    """What a server lists, less what is not wanted and what cannot be a tool.

    Args:
        toolset_id: `<service>.<toolset>`.
        terms: What the toolset states of all its tools.
        connection: Carries their calls.
        include: Names or patterns; all when None.
        exclude: Names or patterns.
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
        """Whether the server was ever heard."""
        self._toolset_id = toolset_id
        self._terms = terms
        self._connection = connection
        self._include = include
        self._exclude = exclude
        self._warned: set[tuple[str, str]] = set()

    async def refresh(self, session: "Session") -> None:
        """Take over the server's list; where there is none to be had, the old one stands.

        Raises:
            ToolUnavailable: the server is gone, or has never given a list.
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
            self.tools = MappingProxyType(await aside(lambda: self._tools_of(listed)))
            self.is_known = True

    def _tools_of(self, listed: "Sequence[Tool]") -> dict[str, McpTool]:
        found: dict[str, McpTool] = {}
        for tool in listed:
            if not self._is_wanted(tool.name):
                continue
            try:
                spec = spec_from_listing(self._toolset_id, tool, self._terms)
            except ValueError as error:
                self.warn(plain(tool.name, 100), plain(str(error), 300))
                continue
            known = self.tools.get(tool.name)
            # One that has not changed keeps its compiled schema.
            found[tool.name] = known if known and known.spec == spec else McpTool(spec, self._connection)
        return found

    def _is_wanted(self, name: str) -> bool:
        is_included = self._include is None or matches_any(name, self._include)
        return is_included and not matches_any(name, self._exclude)

    def warn(self, name: str, why: str) -> None:
        """Say, once, what of a server is left out."""
        if (name, why) not in self._warned and len(self._warned) < _MAX_WARNINGS:
            self._warned.add((name, why))
            _log.warning("mcp_tool_skipped", toolset=self._toolset_id, tool=name, reason=why)


async def _list_tools(session: "Session") -> "tuple[list[Tool], bool]":
    """All tools that a server lists, page by page, each name once, and whether there are more than are taken.

    Raises:
        SojournError: a page could not be had.
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

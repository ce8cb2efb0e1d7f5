"""The tools of a server by its last listing, which replaces the one before whole."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import structlog

from sojourn.authoring.runnable import LISTING
from sojourn.errors import SojournError, ToolUnavailable
from sojourn.mcp.caller import Caller
from sojourn.mcp.connection import ServerConnection
from sojourn.mcp.errors import ErrorResponse, ServerUnusable, SignInRequired
from sojourn.mcp.limits import (
    LIST_TIMEOUT,
    MAX_INSTRUCTIONS,
    MAX_PAGES,
    MAX_TOOLS,
    READ_RESOURCE,
    clean_text,
    mask_secrets,
)
from sojourn.mcp.spec_from_listing import (
    READ_RESOURCE_TOOL,
    Terms,
    matches_any,
    resource_spec,
    spec_from_listing,
)
from sojourn.mcp.tool import McpTool
from sojourn.serving.pace import run_in_thread
from sojourn.values.text import plain

if TYPE_CHECKING:
    from mcp_types import Tool

    from sojourn.mcp.session import ServerSession

__all__ = ["Catalogue"]

_log = structlog.get_logger("sojourn.mcp")

_MAX_WARNINGS = 1_000
_MAX_NAME = 100
_MAX_REASON = 300


class Catalogue:
    def __init__(
        self,
        toolset_id: str,
        terms: Terms,
        connection: ServerConnection,
        *,
        include: Sequence[str] | None,
        exclude: Sequence[str],
    ) -> None:
        self.tools: MappingProxyType[str, McpTool] = MappingProxyType({})
        self.is_known = False
        self.instructions = ""
        self.left_out: Mapping[str, str] = MappingProxyType({})
        """Unusable tools by name, each with its reason; `LISTING` if the list itself is."""
        self._toolset_id = toolset_id
        self._terms = terms
        self._connection = connection
        self._include = include
        self._exclude = exclude
        self._leaving_out: dict[str, str] = {}
        self._warned: set[tuple[str, str, str]] = set()

    async def refresh(self, session: "ServerSession", caller: Caller | None = None) -> None:
        """List the server's tools to a caller. If listing fails, the old list stays.

        Raises:
            ToolUnavailable: The server cannot be reached, or listing failed and there is no old list.
        """
        self._leaving_out = {}
        try:
            async with asyncio.timeout(LIST_TIMEOUT.total_seconds()):
                listed, again, is_cut = await _list_tools(session, caller)
        except (SojournError, TimeoutError) as error:
            text = str(error) or "it does not answer in time"
            if isinstance(error, (ToolUnavailable, SignInRequired)):
                raise
            if isinstance(error, ServerUnusable):
                raise ToolUnavailable(text) from None
            if not self.is_known:
                raise ToolUnavailable(f"its MCP server does not list its tools: {text}") from None
            why = self._log("mcp_tool_skipped", LISTING, text)
            self.left_out = MappingProxyType({**self.left_out, LISTING: f"the list is an old one: {why}"})
        else:
            if is_cut:
                self.leave_out(LISTING, f"only the first {len(listed)} tools are used")
            for name in again:
                if self._is_wanted(name):
                    self.leave_out(
                        f"(another {name})",
                        f"the list has the name {name} more than once, and the first is used",
                    )
            tools = await run_in_thread(lambda: self._tools_of(listed))
            if (
                READ_RESOURCE_TOOL not in tools
                and self._is_wanted(READ_RESOURCE_TOOL)
                and await self._has_resources(session, caller)
            ):
                tools = dict(sorted({**tools, READ_RESOURCE_TOOL: self._reader()}.items()))
            self.tools = MappingProxyType(tools)
            self.instructions = clean_text(session.instructions, MAX_INSTRUCTIONS)
            self.left_out = MappingProxyType(self._leaving_out)
            self.is_known = True

    def _tools_of(self, listed: "Sequence[Tool]") -> dict[str, McpTool]:
        """Return the usable tools by name, since the order of a server changes."""
        found: dict[str, McpTool] = {}
        ids: set[str] = set()
        for tool in sorted(listed, key=lambda tool: tool.name):
            if not self._is_wanted(tool.name):
                continue
            try:
                spec, why = spec_from_listing(self._toolset_id, tool, self._terms)
            except ValueError as error:
                self.leave_out(tool.name, str(error))
                continue
            if spec.id in ids:
                self.leave_out(tool.name, f"another tool has the id {spec.id}")
                continue
            if why:
                self._log("mcp_schema_unused", tool.name, why)
            ids.add(spec.id)
            known = self.tools.get(tool.name)
            # A tool that has not changed keeps its compiled schema.
            found[tool.name] = (
                known
                if known and known.spec == spec
                else McpTool(spec, tool.name, self._terms, self._connection)
            )
        return found

    async def _has_resources(self, session: "ServerSession", caller: Caller | None) -> bool:
        """Return whether the server has resources, if need be as it said before."""
        try:
            async with asyncio.timeout(LIST_TIMEOUT.total_seconds()):
                return await session.has_resources(caller)
        except (SojournError, TimeoutError):
            return READ_RESOURCE_TOOL in self.tools

    def _reader(self) -> McpTool:
        spec, known = resource_spec(self._toolset_id, self._terms), self.tools.get(READ_RESOURCE_TOOL)
        if known is not None and known.spec == spec:
            return known
        return McpTool(spec, READ_RESOURCE, self._terms, self._connection)

    def _is_wanted(self, name: str) -> bool:
        is_included = self._include is None or matches_any(name, self._include)
        return is_included and not matches_any(name, self._exclude)

    def leave_out(self, name: str, why: str) -> None:
        """Note that a listed tool is left out, and log it once."""
        if not self._is_wanted(name) and name != LISTING:
            return
        why = self._log("mcp_tool_skipped", name, why)
        if len(self._leaving_out) < MAX_TOOLS:
            self._leaving_out.setdefault(name, why)

    def _log(self, event: str, name: str, why: str) -> str:
        secrets = self._connection.secrets
        shown, why = (
            plain(mask_secrets(name, secrets), _MAX_NAME),
            plain(mask_secrets(why, secrets), _MAX_REASON),
        )
        if (event, shown, why) not in self._warned and len(self._warned) < _MAX_WARNINGS:
            self._warned.add((event, shown, why))
            _log.warning(event, toolset=self._toolset_id, tool=shown, reason=why)
        return why


async def _list_tools(
    session: "ServerSession", caller: Caller | None
) -> "tuple[list[Tool], list[str], bool]":
    """Return the tools that a server lists, its duplicates, and if it was cut.

    The list is cut at `MAX_TOOLS` or `MAX_PAGES`. An empty cursor ends a list by the protocols before
    2026-07-28. Since then a page may be behind it, and if the server refuses to send it, the list ends too.
    """
    found: dict[str, Tool] = {}
    again: dict[str, None] = {}
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(MAX_PAGES):
        try:
            page = await session.page(cursor, caller)
        except ErrorResponse:
            if cursor == "":
                return list(found.values()), list(again), False
            raise
        names = Counter(tool.name for tool in page.tools)
        again |= {name: None for name, count in names.items() if count > 1}
        for tool in page.tools:
            if len(found) == MAX_TOOLS and tool.name not in found:
                return list(found.values()), list(again), True
            found.setdefault(tool.name, tool)
        cursor = page.next_cursor
        if cursor is None or cursor in seen or (cursor == "" and not session.is_modern):
            return list(found.values()), list(again), False
        seen.add(cursor)
    return list(found.values()), list(again), True

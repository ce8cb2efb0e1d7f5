"""Catalogue: the tools of a server as they are known now, replaced as a whole or not at all."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import TYPE_CHECKING

import structlog

from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.values.text import plain
from sojourn.errors import SojournError, ToolUnavailable
from sojourn.mcp.limits import LIST_TIMEOUT
from sojourn.mcp.listing import list_tools
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
        toolset_id: For logs.
        spec_of: Takes a listed tool over; raises ValueError where that cannot be.
        tool_of: Makes a tool of its spec.
        include: Names or patterns; all when None.
        exclude: Names or patterns.
    """

    def __init__(
        self,
        toolset_id: str,
        *,
        spec_of: "Callable[[Tool], ToolSpec]",
        tool_of: Callable[[ToolSpec], McpTool],
        include: Sequence[str] | None,
        exclude: Sequence[str],
    ) -> None:
        self.tools: Mapping[str, McpTool] = MappingProxyType({})
        self.is_known = False
        """Whether the server was ever heard."""
        self._toolset_id = toolset_id
        self._spec_of = spec_of
        self._tool_of = tool_of
        self._include = include
        self._exclude = exclude
        self._listed_at = float("-inf")
        self._warned: set[tuple[str, str]] = set()

    @property
    def age(self) -> float:
        """Seconds since the server was last asked."""
        return time.monotonic() - self._listed_at

    async def refresh(self, session: "Session") -> None:
        """Take over the server's list; where there is none to be had, the old one stands.

        Raises:
            ToolUnavailable: the server is gone, or has never given a list.
        """
        try:
            async with asyncio.timeout(LIST_TIMEOUT.total_seconds()):
                listed, is_cut = await list_tools(session)
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
            self.tools = MappingProxyType(await aside(lambda: self._taken(listed)))
            self.is_known = True
        self._listed_at = time.monotonic()

    def _taken(self, listed: "Sequence[Tool]") -> dict[str, McpTool]:
        found: dict[str, McpTool] = {}
        for tool in filter(self._is_wanted, listed):
            try:
                spec = self._spec_of(tool)
            except ValueError as error:
                self.warn(plain(tool.name, 100), plain(str(error), 300))
                continue
            known = self.tools.get(tool.name)
            # One that has not changed keeps its compiled schema.
            found[tool.name] = known if known and known.spec == spec else self._tool_of(spec)
        return found

    def _is_wanted(self, tool: "Tool") -> bool:
        wanted = self._include is None or any(fnmatchcase(tool.name, each) for each in self._include)
        return wanted and not any(fnmatchcase(tool.name, each) for each in self._exclude)

    def warn(self, name: str, why: str) -> None:
        """Say, once, what of a server is left out."""
        if (name, why) not in self._warned and len(self._warned) < _MAX_WARNINGS:
            self._warned.add((name, why))
            _log.warning("mcp_tool_skipped", toolset=self._toolset_id, tool=name, reason=why)

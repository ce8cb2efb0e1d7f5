"""The tools of a server as it lists them to a principal who has signed in.

Before that the toolset has one tool, `connect`, whose call is the sign-in.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from cachetools import LRUCache

from sojourn.contracts.principal import mark_of
from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.mcp.caller import Caller
from sojourn.mcp.catalogue import Catalogue
from sojourn.mcp.connection import ServerConnection
from sojourn.mcp.spec_from_listing import Terms, connect_spec
from sojourn.mcp.tool import McpTool

__all__ = ["ConnectTool", "OwnLists"]

_OWNERS = 1_024
_MAX_NAMES = 200


@dataclass(slots=True)
class _List:
    catalogue: Catalogue
    listed_at: float = float("-inf")


class OwnLists:
    """The lists of principals, each from a session of its own.

    Args:
        new_catalogue: Makes an empty list.
        connection: The connection to the server.
        ttl: Maximum age of a list.
    """

    def __init__(
        self, new_catalogue: Callable[[], Catalogue], connection: ServerConnection, ttl: timedelta
    ) -> None:
        self._new = new_catalogue
        self._connection = connection
        self._ttl = ttl.total_seconds()
        self._lists: LRUCache[str, _List] = LRUCache(maxsize=_OWNERS)

    def known(self, meta: ToolCallMeta) -> Mapping[str, McpTool] | None:
        """Return the tools that were listed last for a principal, or None."""
        found = self._lists.get(mark_of(meta.principal)) if meta.principal else None
        return found.catalogue.tools if found and found.catalogue.is_known else None

    async def tools(self, meta: ToolCallMeta) -> Mapping[str, McpTool]:
        """Return the tools of a principal, listed again if they are too old.

        Raises:
            SignInRequired: The principal has to sign in first.
            ToolUnavailable: The server does not list them now.
        """
        owner = mark_of(meta.principal) if meta.principal else ""
        own = self._lists.get(owner) or _List(self._new())
        if time.monotonic() - own.listed_at >= self._ttl:
            caller = Caller(meta, self._connection.secrets)
            await self._connection.session_for(caller, lambda session: own.catalogue.refresh(session, caller))
            own.listed_at = time.monotonic()
            if owner:
                self._lists[owner] = own
        return own.catalogue.tools


class ConnectTool(McpTool):
    """The sign-in as a tool, for models that do not see the others yet."""

    def __init__(
        self, toolset_id: str, title: str, terms: Terms, connection: ServerConnection, lists: OwnLists
    ) -> None:
        super().__init__(connect_spec(toolset_id, title, terms), "connect", terms, connection)
        self._lists = lists

    async def _send(self, call: ToolRequest, arguments: dict[str, Any], meta: ToolCallMeta) -> ToolResult:  # noqa: ARG002
        tools = await self._lists.tools(meta)
        return ToolResult(result={"tools": [str(tool.id) for tool in tools.values()][:_MAX_NAMES]})

"""All the tools a server lists, page by page, as far as a listing may go."""

from typing import TYPE_CHECKING

from sojourn.mcp.limits import MAX_PAGES, MAX_TOOLS

if TYPE_CHECKING:
    from mcp_types import Tool

    from sojourn.mcp.session import Session

__all__ = ["list_tools"]


async def list_tools(session: "Session") -> "tuple[list[Tool], bool]":
    """The tools, each name once, and whether there were more than we take.

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

"""Toolset `ops.work_orders`: what an MCP server knows of the work at the sites.

The server is a process of the worker's, started with it and ended with it. Its own file is
`toolsets/work_orders_server.py`; nothing of it is imported here, and without the `mcp` extra a
worker serves as well, with these tools unavailable.
"""

import sys
from pathlib import Path

from sojourn import mcp
from toolsets.database import location

__all__ = ["transport", "work_orders"]

_ROOT = Path(__file__).resolve().parent.parent
"""The folder that holds `toolsets`, from where the server finds it wherever the worker was started."""


def transport(database: Path) -> mcp.Stdio:
    """The server as a process, on a database file."""
    command = ("-m", "toolsets.work_orders_server", str(database.absolute()))
    return mcp.Stdio(sys.executable, *command, cwd=str(_ROOT))


work_orders = mcp.McpToolset(
    "ops.work_orders",
    transport=transport(location()),
    description="Work at the sites: what was done, is under way and is planned.",
)

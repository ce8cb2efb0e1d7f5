"""The work orders of the sites, from an MCP server (`ops.work_orders`).

The server is a process that starts and ends with the worker. Its code is in
`toolsets/work_orders_server.py`, which is not imported here: without the `mcp` extra a worker
serves too, with these tools unavailable.
"""

import sys
from pathlib import Path

from sojourn import mcp
from toolsets.database import location

__all__ = ["transport", "work_orders"]

_ROOT = Path(__file__).resolve().parent.parent
"""The folder that holds `toolsets`, so that the server can import it, wherever the worker was started."""


def transport(database: Path) -> mcp.Stdio:
    """Return the transport that starts the server on a database file."""
    command = ("-m", "toolsets.work_orders_server", str(database.absolute()))
    return mcp.Stdio(sys.executable, *command, cwd=str(_ROOT))


work_orders = mcp.McpToolset(
    "ops.work_orders",
    transport=transport(location()),
    description="Work at the sites: what was done, is under way and is planned.",
    trusted=True,  # it is a program of this deployment
)

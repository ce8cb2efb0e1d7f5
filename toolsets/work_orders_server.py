"""Serve the work orders of the sites over MCP, as a separate system.

`python -m toolsets.work_orders_server DATABASE` speaks the protocol over standard input and output,
and ends when its input does. It uses nothing of agents or runs; `toolsets/work_orders.py` declares
it as a toolset, and any other MCP client can use it too.
"""

import os
import sqlite3
import sys
from datetime import UTC, datetime
from typing import Annotated, Literal

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

from toolsets.database import as_of, opened, transaction
from toolsets.shape import BoundedShape, Limit, Shape, SiteId

__all__ = ["OpenedWorkOrder", "WorkOrder", "WorkOrderList", "list_work_orders", "open_work_order", "server"]

Priority = Literal["low", "normal", "high", "urgent"]
Status = Literal["open", "closed"]

server = MCPServer(
    "work-orders",
    instructions="Work at the sites: what was done, is under way and is planned.",
    log_level="WARNING",
)


class WorkOrder(Shape):
    """One piece of work at a site."""

    work_order_id: str
    """The work order, such as `wo-1005`."""
    site_id: str
    """The site of the work."""
    summary: str
    """What is to be done."""
    priority: Priority
    """The priority."""
    status: Status
    """`open` until the work is done, whether planned or not."""
    cuts: Literal["power", "uplink"] | None
    """What the site has to do without during the work; null if nothing."""
    opened_at: datetime
    """When the work order was opened."""
    starts_at: datetime | None
    """When the work begins, by plan; null without a plan."""
    ends_at: datetime | None
    """When the work ends, by plan; null without a plan."""
    closed_at: datetime | None
    """When the work was done; null while it is open."""


class WorkOrderList(BoundedShape):
    """Work orders, the latest first."""

    work_orders: list[WorkOrder]
    """The work orders."""


class OpenedWorkOrder(WorkOrder):
    """A work order that is open."""

    created: bool
    """False when one with the same summary was open at the site already."""


@server.tool(
    title="List work orders",
    annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
)
def list_work_orders(
    site_id: SiteId,
    status: Annotated[
        Status | None, Field(description="Only those of this status; all when left out.")
    ] = None,
    limit: Limit = 50,
) -> WorkOrderList:
    """List the work orders of a site, the latest first."""
    where = "FROM work_orders WHERE site_id = ?1 AND (?2 IS NULL OR status = ?2)"
    with opened() as connection:
        _require_site(connection, site_id)
        rows = connection.execute(
            f"SELECT * {where} ORDER BY order_no DESC LIMIT ?3", (site_id, status, limit)
        ).fetchall()
        total = connection.execute(f"SELECT count(*) {where}", (site_id, status)).fetchone()[0]
    truncated = len(rows) < total
    return WorkOrderList(
        work_orders=[_work_order(row) for row in rows],
        returned=len(rows),
        total=total,
        truncated=truncated,
        refinement_hint="Ask for one status, or raise limit (at most 500)." if truncated else None,
    )


@server.tool(
    title="Open a work order",
    annotations=ToolAnnotations(
        read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    ),
)
def open_work_order(
    site_id: SiteId,
    summary: Annotated[str, Field(description="What is to be done.", min_length=3, max_length=200)],
    priority: Annotated[Priority, Field(description="How soon.")] = "normal",
) -> OpenedWorkOrder:
    """Open a work order at a site; if one with the same summary is open there, return it unchanged."""
    with transaction() as connection:
        _require_site(connection, site_id)
        created = connection.execute(
            "INSERT INTO work_orders (site_id, summary, priority, status, opened_at) VALUES (?, ?, ?, 'open', ?)"
            " ON CONFLICT DO NOTHING",
            (site_id, summary, priority, as_of(connection).timestamp()),
        ).rowcount
        row = connection.execute(
            "SELECT * FROM work_orders WHERE site_id = ? AND summary = ? AND status = 'open'",
            (site_id, summary),
        ).fetchone()
    return OpenedWorkOrder(**_work_order(row).model_dump(), created=created == 1)


def _require_site(connection: sqlite3.Connection, site_id: str) -> None:
    if connection.execute("SELECT 1 FROM sites WHERE site_id = ?", (site_id,)).fetchone() is None:
        raise ToolError(f"there is no site {site_id}")


def _work_order(row: sqlite3.Row) -> WorkOrder:
    fields = dict(row)
    times = {
        name: None if fields[name] is None else datetime.fromtimestamp(fields[name], UTC)
        for name in ("opened_at", "starts_at", "ends_at", "closed_at")
    }
    return WorkOrder.model_validate({**fields, **times, "work_order_id": f"wo-{fields['order_no']}"})


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m toolsets.work_orders_server DATABASE")
    os.environ["SOJOURN_OPS_DB"] = sys.argv[1]
    server.run("stdio")

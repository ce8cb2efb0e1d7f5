"""Sites, their contacts and their device counts, as the toolset `ops.sites`."""

import sqlite3
from datetime import date, datetime
from typing import Annotated, Literal

from pydantic import Field

from sojourn import Toolset
from toolsets.database import as_of, opened, require
from toolsets.shape import BoundedShape, Limit, Shape, SiteId

__all__ = ["Contact", "Site", "SiteList", "SiteSummary", "get_site", "list_sites", "sites"]

sites = Toolset("ops.sites", description="Sites with field devices, and who answers for them.")


class SiteSummary(Shape):
    """A site with its device counts."""

    site_id: str
    """The site, such as `s-7`."""
    name: str
    """The name."""
    region: str
    """`north`, `east`, `south` or `west`."""
    device_count: int
    """Devices installed, the gateway included."""
    online_count: int
    """Devices that reported in the last two hours."""
    offline_count: int
    """Devices that reported before, but not in the last two hours."""


class SiteList(BoundedShape):
    """Sites in the order of their numbers."""

    sites: list[SiteSummary]
    """The sites."""
    as_of: datetime
    """The time of the data: what counts as now."""


class Contact(Shape):
    """A contact of a site."""

    name: str
    """The person."""
    email: str
    """The email address."""
    phone: str | None
    """The phone number."""
    role: str
    """`operations`, `maintenance` or `owner`."""
    valid_until: date | None
    """The last day of the registration; null if it does not end."""
    expired: bool
    """Whether that day is before `as_of`."""


class Site(SiteSummary):
    """A site with its gateway and contacts."""

    gateway_id: str
    """The device that all others of the site report through."""
    contacts: list[Contact]
    """The contacts, `operations` first; may be empty."""
    as_of: datetime
    """The time of the data: what counts as now."""


_SUMMARY = """
    SELECT sites.*, count(*) AS device_count,
        sum(status = 'online') AS online_count, sum(status = 'offline') AS offline_count
    FROM sites JOIN devices USING (site_id) GROUP BY site_id
"""
_CONDITIONS = {
    None: "TRUE",
    "dark": "online_count = 0",
    "degraded": "online_count > 0 AND offline_count > 0",
    "healthy": "offline_count = 0",
}


@sites.tool(title="List sites", tags=["read"], bounded=True, read_only=True, examples=[{"condition": "dark"}])
def list_sites(
    condition: Annotated[
        Literal["dark", "degraded", "healthy"] | None,
        Field(description="Dark: no device online. Degraded: some offline. Healthy: none offline."),
    ] = None,
    limit: Limit = 50,
) -> SiteList:
    """List sites with their device counts, all or those in one condition."""
    where = f"FROM ({_SUMMARY}) WHERE {_CONDITIONS[condition]}"
    with opened() as connection:
        rows = connection.execute(f"SELECT * {where} ORDER BY number LIMIT ?", (limit + 1,)).fetchall()
        total = connection.execute(f"SELECT count(*) {where}").fetchone()[0]
        now = as_of(connection)
    truncated = len(rows) > limit
    found = [SiteSummary(**dict(row)) for row in rows[:limit]]
    return SiteList(
        sites=found,
        as_of=now,
        returned=len(found),
        total=total,
        truncated=truncated,
        refinement_hint="Ask for one condition, or raise limit (at most 500)." if truncated else None,
    )


@sites.tool(title="Get a site", tags=["read"], read_only=True, examples=[{"site_id": "s-7"}])
def get_site(site_id: SiteId) -> Site:
    """Get a site with its gateway, contacts and device counts, and the time of the data."""
    with opened() as connection:
        require(connection, "site_id", site_id, tool=get_site.id)
        summary = connection.execute(f"{_SUMMARY} HAVING site_id = ?", (site_id,)).fetchone()
        now = as_of(connection)
        return Site(**dict(summary), as_of=now, contacts=_contacts(connection, site_id, now.date()))


def _contacts(connection: sqlite3.Connection, site_id: str, today: date) -> list[Contact]:
    rows = connection.execute(
        "SELECT * FROM profiles WHERE site_id = ? ORDER BY role != 'operations', role", (site_id,)
    )
    return [
        Contact(
            name=row["name"],
            email=row["email"],
            phone=row["phone"],
            role=row["role"],
            valid_until=row["valid_until"],
            expired=row["valid_until"] is not None and date.fromisoformat(row["valid_until"]) < today,
        )
        for row in rows
    ]

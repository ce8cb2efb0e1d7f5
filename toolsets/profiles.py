"""Register the contacts of sites, as the toolset `ops.profiles`."""

import sqlite3
from typing import Literal

from pydantic import Field

from sojourn import ToolCallMeta, Toolset
from toolsets.database import require, transaction
from toolsets.executions import recorded
from toolsets.shape import Shape, SiteId

__all__ = ["Profile", "UpsertProfile", "profiles", "upsert"]

profiles = Toolset("ops.profiles", description="Contact profiles of sites.")

Role = Literal["operations", "maintenance", "owner"]


class UpsertProfile(Shape):
    """A contact of a site to register."""

    site_id: SiteId
    name: str = Field(min_length=1, max_length=100)
    """The person's name."""
    email: str = Field(max_length=200, json_schema_extra={"format": "email"})
    """The email address."""
    role: Role
    """The role of the contact."""
    phone: str | None = Field(default=None, pattern=r"^\+[0-9][0-9 ]{5,18}[0-9]$")
    """The phone number in international form, such as `+351 912 345 678`."""


class Profile(Shape):
    """The contact of a site in one role."""

    site_id: str
    """The site."""
    role: Role
    """The role."""
    name: str
    """The person."""
    email: str
    """The email address."""
    phone: str | None
    """The phone number."""
    revision: int
    """1 when new, one more with each change."""
    replaced: str | None
    """The name that was registered in this role before; null if there was none."""


@profiles.tool(
    title="Register a contact",
    tags=["write"],
    idempotent=True,
    destructive=True,
    confirmation="Register {name} ({email}) as {role} contact of {site_id}? Whoever is that now is replaced.",
    examples=[{"site_id": "s-7", "name": "Ana Lima", "email": "ana.lima@example.org", "role": "operations"}],
)
def upsert(args: UpsertProfile, meta: ToolCallMeta) -> Profile:
    """Register the contact of a site in a role, in place of the one before.

    A repeat with the same idempotency key changes nothing and returns the first result.
    """
    with recorded(meta, upsert.id), transaction() as connection:
        done = connection.execute(
            "SELECT profile FROM profile_writes WHERE idempotency_key = ?", (meta.idempotency_key,)
        ).fetchone()
        if done is not None:
            return Profile.model_validate_json(done["profile"])
        require(connection, "site_id", args.site_id, tool=upsert.id)
        profile = _write(connection, args)
        connection.execute(
            "INSERT INTO profile_writes VALUES (?, ?)", (meta.idempotency_key, profile.model_dump_json())
        )
    return profile


def _write(connection: sqlite3.Connection, args: UpsertProfile) -> Profile:
    before = connection.execute(
        "SELECT name, revision FROM profiles WHERE site_id = ? AND role = ?", (args.site_id, args.role)
    ).fetchone()
    revision, replaced = (before["revision"] + 1, before["name"]) if before else (1, None)
    connection.execute(
        "INSERT OR REPLACE INTO profiles (site_id, role, name, email, phone, revision) VALUES (?, ?, ?, ?, ?, ?)",
        (args.site_id, args.role, args.name, args.email, args.phone, revision),
    )
    return Profile(**args.model_dump(), revision=revision, replaced=replaced)

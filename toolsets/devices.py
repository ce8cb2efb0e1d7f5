"""Toolset `ops.devices`: field devices and what they reported."""

import asyncio
import os
import sqlite3
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from pydantic import AwareDatetime, Field

from sojourn import FieldIssue, RetryHint, ToolCallMeta, ToolFailed, Toolset
from toolsets.arguments import DeviceId, Limit, SiteId
from toolsets.database import as_of, opened
from toolsets.device_shapes import (
    Device,
    DeviceList,
    DeviceRecord,
    Finding,
    ListDevices,
    Metric,
    SiteScan,
    TimeSeries,
)
from toolsets.executions import recorded
from toolsets.lookup import require
from toolsets.scan import Reading, examine, low_since

__all__ = ["devices", "get_device", "get_time_series", "list_devices", "scan_site"]

devices = Toolset("ops.devices", description="Field devices and what they reported.")


@devices.tool(
    title="List devices",
    tags=["read"],
    bounded=True,
    read_only=True,
    examples=[{"site_id": "s-1"}, {"site_id": "s-7", "status": "offline"}],
)
def list_devices(args: ListDevices) -> DeviceList:
    """List the devices of a site, all or those of one status."""
    where = "FROM devices WHERE site_id = ?1 AND (?2 IS NULL OR status = ?2)"
    with opened() as connection:
        require(connection, "site_id", args.site_id, tool=list_devices.id)
        rows = connection.execute(
            f"SELECT * {where} ORDER BY device_id LIMIT ?3",
            (args.site_id, args.status, args.limit + 1),
        ).fetchall()
        total = _count(connection, f"SELECT count(*) {where}", (args.site_id, args.status))
    truncated = len(rows) > args.limit
    found = [Device(**_fields(row)) for row in rows[: args.limit]]
    return DeviceList(
        devices=found,
        returned=len(found),
        total=total,
        truncated=truncated,
        refinement_hint="Ask for one status, or raise limit (at most 500)." if truncated else None,
    )


@devices.tool(title="Get a device", tags=["read"], read_only=True, examples=[{"device_id": "d-0700"}])
def get_device(device_id: DeviceId) -> DeviceRecord:
    """Get a device with its model, firmware and metrics, and the time of the data."""
    with opened() as connection:
        row = require(connection, "device_id", device_id, tool=get_device.id)
        return DeviceRecord(**_fields(row), metrics=_metrics(connection, device_id), as_of=as_of(connection))


@devices.tool(
    title="Get a time series",
    tags=["read"],
    read_only=True,
    examples=[
        {"device_id": "d-0700", "start_time": "2026-03-24T06:00:00Z", "end_time": "2026-03-31T06:00:00Z"}
    ],
)
def get_time_series(
    device_id: DeviceId,
    start_time: Annotated[AwareDatetime, Field(description="The first moment, RFC 3339.")],
    end_time: Annotated[AwareDatetime, Field(description="The last moment, RFC 3339.")],
    metric: Annotated[
        Metric, Field(description="What to read; every device has battery_voltage.")
    ] = "battery_voltage",
) -> TimeSeries:
    """Summarize what a device reported between two times: count, range, latest value, and whether it is too low."""
    with opened() as connection:
        require(connection, "device_id", device_id, tool=get_time_series.id)
        series = connection.execute(
            "SELECT * FROM series WHERE device_id = ? AND metric = ?", (device_id, metric)
        ).fetchone()
        if series is None:
            raise _no_such_metric(device_id, metric, _metrics(connection, device_id))
        rows = connection.execute(
            "SELECT time, value FROM readings WHERE series_no = ? AND time BETWEEN ? AND ? ORDER BY time",
            (series["series_no"], start_time.timestamp(), end_time.timestamp()),
        )
        readings: list[Reading] = [(row["time"], row["value"]) for row in rows]
    values = [value for _, value in readings]
    low = low_since(readings, series["low_limit"])
    span = f"{metric} of {device_id} from {start_time.isoformat()} to {end_time.isoformat()}"
    seen = f"{min(values)} to {max(values)} {series['unit']}" if values else "nothing reported"
    return TimeSeries(
        summary=f"{len(values)} reading{'' if len(values) == 1 else 's'} of {span}: {seen}",
        count=len(values),
        device_id=device_id,
        metric=metric,
        min_value=min(values, default=None),
        max_value=max(values, default=None),
        unit=series["unit"],
        last_value=values[-1] if values else None,
        last_time=_moment(readings[-1][0]) if readings else None,
        low_limit=series["low_limit"],
        low_since=None if low is None else _moment(low),
    )


@devices.tool(
    title="Scan a site",
    tags=["read", "slow"],
    bounded=True,
    read_only=True,
    idempotent=True,
    timeout=timedelta(minutes=2),
    examples=[{"site_id": "s-7"}],
)
async def scan_site(site_id: SiteId, meta: ToolCallMeta, limit: Limit = 100) -> SiteScan:
    """Read the month of readings of every device of a site, and report those that are silent, stuck or have gaps.

    There is a pause after each device (setting `SOJOURN_OPS_SCAN_PAUSE`, 0.4 s), so a site takes
    seconds; each execution is recorded.
    """
    pause = float(os.environ.get("SOJOURN_OPS_SCAN_PAUSE", "0.4"))
    members = await asyncio.to_thread(_members, site_id)
    findings: list[Finding] = []
    with recorded(meta, scan_site.id):
        for device in members:
            finding = await asyncio.to_thread(_examine, device)
            findings += [finding] if finding else []
            await asyncio.sleep(pause)
    truncated = len(findings) > limit
    return SiteScan(
        findings=findings[:limit],
        scanned_count=len(members),
        silent_count=sum(finding.condition == "silent" for finding in findings),
        returned=len(findings[:limit]),
        total=len(findings),
        truncated=truncated,
        refinement_hint="Raise limit (at most 500)." if truncated else None,
    )


def _members(site_id: str) -> list[dict[str, Any]]:
    with opened() as connection:
        require(connection, "site_id", site_id, tool=scan_site.id)
        rows = connection.execute("SELECT * FROM devices WHERE site_id = ? ORDER BY device_id", (site_id,))
        return [dict(row) for row in rows]


def _examine(device: dict[str, Any]) -> Finding | None:
    with opened() as connection:
        return examine(connection, device, as_of(connection))


def _metrics(connection: sqlite3.Connection, device_id: str) -> list[str]:
    rows = connection.execute(
        "SELECT metric FROM series WHERE device_id = ? ORDER BY series_no", (device_id,)
    )
    return [metric for (metric,) in rows]


def _no_such_metric(device_id: str, metric: str, known: list[str]) -> ToolFailed:
    return ToolFailed(
        f"{device_id} does not report {metric}",
        code="not_found",
        hint=RetryHint(
            reason="invalid_arguments",
            tool=get_time_series.id,
            restrict_to_tool=True,
            issues=[FieldIssue(field="/metric", constraint="not_found", allowed=list(known))],
            clarifying_question=f"{device_id} reports {' and '.join(known)}. Which do you want?",
            message=f"metric is one of {', '.join(known)} for {device_id}",
        ),
    )


def _count(connection: sqlite3.Connection, query: str, values: tuple[Any, ...]) -> int | None:
    """Return the total, or None if counting fails: a list is useful without it (SR-36)."""
    try:
        return connection.execute(query, values).fetchone()[0]
    except sqlite3.Error:
        return None


def _fields(row: sqlite3.Row | dict[str, Any]) -> dict[str, Any]:
    fields = dict(row)
    seen = fields["last_seen"]
    return {**fields, "last_seen": None if seen is None else _moment(seen)}


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)

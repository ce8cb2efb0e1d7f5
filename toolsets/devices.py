"""Field devices, their readings, and their faults, as the toolset `ops.devices`."""

import asyncio
import os
import sqlite3
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field

from sojourn import FieldIssue, RetryHint, ToolCallMeta, ToolFailed, Toolset
from toolsets.database import as_of, opened, require
from toolsets.executions import recorded
from toolsets.shape import BoundedShape, DeviceId, Limit, Shape, SiteId

__all__ = [
    "Device",
    "DeviceList",
    "DeviceRecord",
    "Finding",
    "ListDevices",
    "Metric",
    "Reading",
    "SiteScan",
    "Status",
    "TimeSeries",
    "devices",
    "examine",
    "get_device",
    "get_time_series",
    "list_devices",
    "low_since",
    "scan_site",
]

Status = Literal["online", "offline", "unknown"]
Metric = Literal["battery_voltage", "flow_rate", "pressure", "level", "power", "temperature"]


class ListDevices(Shape):
    """Which devices to list (SR-32)."""

    site_id: SiteId
    status: Status | None = None
    """Only devices of this status; all when left out."""
    limit: Limit = 50


class Device(Shape):
    """One device, in short."""

    device_id: str
    """The device, such as `d-0700`."""
    site_id: str
    """The site."""
    name: str
    """The name."""
    kind: str
    """`gateway`, `flow_meter`, `pressure_sensor`, `level_sensor`, `pump_controller` or `weather_station`."""
    status: Status
    """`online` if it reported in the last two hours, `offline` if before, `unknown` if never."""
    last_seen: datetime | None
    """When it last reported; null if never."""


class DeviceList(BoundedShape):
    """Devices in the order of their ids (SR-32)."""

    devices: list[Device]
    """The devices."""


class DeviceRecord(Device):
    """One device, in full."""

    model: str
    """The model, by its maker."""
    firmware: str
    """The version of its firmware."""
    installed_on: str
    """The day it was installed."""
    metrics: list[str]
    """The metrics that it reports."""
    as_of: datetime
    """The time of the data: what counts as now."""


class TimeSeries(Shape):
    """The readings of one metric of a device over a time, summarized (SR-105)."""

    summary: str
    """The summary in a sentence."""
    count: int
    """The number of readings in the time."""
    device_id: str
    """The device."""
    metric: Metric
    """The metric."""
    min_value: float | None = None
    """The smallest value; null without readings."""
    max_value: float | None = None
    """The largest value; null without readings."""
    unit: str | None = None
    """The unit of the values."""
    last_value: float | None = None
    """The latest value in the time; null without readings."""
    last_time: datetime | None = None
    """When the latest value was reported."""
    low_limit: float | None = None
    """Below this value the device does not work; null if there is no limit."""
    low_since: datetime | None = None
    """Since when all readings are under the limit; null if the latest is not."""


class Finding(Shape):
    """What is wrong with one device, by its month of readings."""

    device_id: str
    """The device."""
    name: str
    """The name."""
    kind: str
    """Its kind, such as `gateway`."""
    condition: Literal["never_reported", "silent", "stuck", "gaps"]
    """`silent`: no reading for over two hours; `stuck`: one value 12 times in a row; `gaps`: readings are missing."""
    since: datetime | None
    """When it last reported, or when it got stuck; null for other conditions."""
    longest_gap_hours: float
    """The longest time between two readings, in hours."""


class SiteScan(BoundedShape):
    """The devices of a site with a fault."""

    findings: list[Finding]
    """One for each device with a fault, in the order of their ids."""
    scanned_count: int
    """Devices that were scanned."""
    silent_count: int
    """Devices with the condition `silent`, those left out included."""


_SILENT_AFTER_S = 2 * 3600
_STUCK_AFTER = 12
"""Readings in a row with one value, up to the latest."""
_GAP_INTERVALS = 3

Reading = tuple[int, float]
"""The time in seconds since 1970, and the value."""


def examine(connection: sqlite3.Connection, device: dict[str, Any], as_of: datetime) -> Finding | None:
    """Return the finding about a device, or None if it is well.

    It judges the series with the shortest interval.
    """
    series_no, interval = connection.execute(
        "SELECT series_no, interval_s FROM series WHERE device_id = ? ORDER BY interval_s",
        (device["device_id"],),
    ).fetchone()
    rows = connection.execute(
        "SELECT time, value FROM readings WHERE series_no = ? ORDER BY time", (series_no,)
    )
    readings: list[Reading] = [(row["time"], row["value"]) for row in rows]
    gap = max((later - earlier for (earlier, _), (later, _) in pairwise(readings)), default=0)
    found = _condition(readings, gap > _GAP_INTERVALS * interval, as_of.timestamp())
    if found is None:
        return None
    condition, since = found
    return Finding(
        device_id=device["device_id"],
        name=device["name"],
        kind=device["kind"],
        condition=condition,
        since=None if since is None else datetime.fromtimestamp(since, UTC),
        longest_gap_hours=round(gap / 3600, 2),
    )


def low_since(readings: list[Reading], limit: float | None) -> int | None:
    """Return the time since which all values are under the limit.

    None if the latest value is not, or without a limit.
    """
    since = None
    for time, value in reversed(readings):
        if limit is None or value >= limit:
            break
        since = time
    return since


_Condition = Literal["never_reported", "silent", "stuck", "gaps"]


def _condition(readings: list[Reading], has_gap: bool, now: float) -> tuple[_Condition, int | None] | None:
    if not readings:
        return "never_reported", None
    last = readings[-1][0]
    if now - last > _SILENT_AFTER_S:
        return "silent", last
    same = [time for time, value in readings[-_STUCK_AFTER:] if value == readings[-1][1]]
    if len(same) == _STUCK_AFTER:
        return "stuck", _stuck_since(readings)
    return ("gaps", None) if has_gap else None


def _stuck_since(readings: list[Reading]) -> int:
    since, value = readings[-1]
    for time, other in reversed(readings):
        if other != value:
            break
        since = time
    return since


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
    """Return the total, or None if counting fails, since lists work without (SR-36)."""
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

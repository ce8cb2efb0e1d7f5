"""Scan: find what is wrong with a device in its month of readings."""

import sqlite3
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Literal

from toolsets.device_shapes import Finding

__all__ = ["Reading", "examine", "low_since"]

_SILENT_AFTER_S = 2 * 3600
_STUCK_AFTER = 12
"""Readings in a row with one value, up to the latest."""
_GAP_INTERVALS = 3

Reading = tuple[int, float]
"""The time in seconds since 1970, and the value."""


def examine(connection: sqlite3.Connection, device: dict[str, Any], as_of: datetime) -> Finding | None:
    """Return the finding about a device, by its series with the shortest interval; None if nothing is wrong."""
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
    """Return the time since which all values are under the limit; None if the latest is not, or without a limit."""
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

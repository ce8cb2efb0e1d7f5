import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from sojourn import RetryReason, ToolCallMeta, ToolFailed
from sojourn.core.payload.hints import hint_for_issues
from toolsets import database, devices
from toolsets.devices import ListDevices
from toolsets.executions import history

NOW = datetime(2026, 3, 31, 6, tzinfo=UTC)


def week(device_id: str, **more: str):
    """Read the last week of a device's data."""
    return devices.get_time_series(
        device_id=device_id, start_time=NOW - timedelta(days=7), end_time=NOW, **more
    )


def keep_devices(path: Path, count: int) -> None:
    """Leave only so many devices at s-1."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "DELETE FROM devices WHERE site_id = 's-1' AND device_id NOT IN"
            " (SELECT device_id FROM devices WHERE site_id = 's-1' ORDER BY device_id LIMIT ?)",
            (count,),
        )


@pytest.mark.parametrize(("there", "truncated"), [(50, False), (51, True)])
def test_limit_is_detected_by_one_more(ops_database: Path, there: int, truncated: bool):
    """51 devices under a limit of 50 are cut with a hint; 50 are not (SR-36)."""
    keep_devices(ops_database, there)
    found = devices.list_devices(ListDevices(site_id="s-1"))
    assert (found.returned, len(found.devices), found.total) == (50, 50, there)
    assert found.truncated is truncated
    assert bool(found.refinement_hint) is truncated


def test_status_filters():
    """A status lists only devices of that status; all other devices are in the other lists (SR-32)."""
    by_status = {
        status: devices.list_devices(ListDevices(site_id="s-3", status=status)).devices
        for status in ("online", "offline", "unknown")
    }
    assert {d.device_id for d in by_status["offline"]} == {"d-0304", "d-0309", "d-0312"}
    assert all(device.status == status for status, found in by_status.items() for device in found)
    assert sum(map(len, by_status.values())) == devices.list_devices(ListDevices(site_id="s-3")).total


def test_total_is_best_effort(monkeypatch: pytest.MonkeyPatch):
    """A count that fails leaves the list, with an unknown total (SR-36)."""

    class Failing:
        def execute(self, *_args: object) -> None:
            raise sqlite3.OperationalError("no")

    real = devices._count
    monkeypatch.setattr(devices, "_count", lambda _, query, values: real(Failing(), query, values))
    found = devices.list_devices(ListDevices(site_id="s-3"))
    assert found.total is None
    assert found.returned == 13


def test_query_error_is_raised(ops_database: Path):
    """A failing query is an error, not an empty list (SR-36)."""
    with closing(sqlite3.connect(ops_database)) as connection, connection:
        connection.execute("ALTER TABLE devices RENAME TO gone")
    with pytest.raises(sqlite3.OperationalError):
        devices.list_devices(ListDevices(site_id="s-3"))


@pytest.mark.parametrize(
    ("payload", "reason", "field"),
    [
        ({}, RetryReason.MISSING_FIELDS, "/site_id"),
        ({"site_id": "s-1", "limit": 501}, RetryReason.INVALID_ARGUMENTS, "/limit"),
        ({"site_id": "s-1", "status": "x"}, RetryReason.INVALID_ARGUMENTS, "/status"),
    ],
)
def test_bad_payloads_stop_at_the_boundary(payload: dict[str, object], reason: str, field: str):
    """A missing site, a limit of 501 and an unknown status are answered with hints (SR-32)."""
    tool = devices.list_devices
    _, hint = hint_for_issues(tool.spec, payload, tool.validator.issues(payload), tool.validator)
    assert hint.reason == reason
    assert [issue.field for issue in hint.issues] == [field]


def test_limit_is_50_when_left_out():
    """A payload without a limit means 50 (SR-32)."""
    assert devices.list_devices.payload.decode({"site_id": "s-1"}).limit == 50
    with pytest.raises(ValidationError):
        devices.list_devices.payload.decode({"site_id": "s-1", "limit": 501})


def test_unknown_site_names_close_ones():
    """A site that does not exist raises `ToolFailed`, whose hint names close ids."""
    with pytest.raises(ToolFailed, match="there is no site s-99") as caught:
        devices.list_devices(ListDevices(site_id="s-99"))
    assert caught.value.hint
    assert caught.value.hint.issues[0].allowed


def test_get_device():
    """A device has its metrics and the current time of the data."""
    record = devices.get_device(device_id="d-0700")
    assert (record.kind, record.site_id, record.metrics) == ("gateway", "s-7", ["battery_voltage"])
    assert record.as_of == NOW


def test_battery_story():
    """The battery of the gateway of s-7 sank to nothing, and its devices fell silent as it went under its limit."""
    battery = week("d-0700")
    assert battery.min_value == battery.last_value == 0.0
    assert battery.low_since is not None
    offline = devices.list_devices(ListDevices(site_id="s-7", status="offline")).devices
    assert len(offline) == devices.list_devices(ListDevices(site_id="s-7")).total
    behind = [device.last_seen for device in offline if device.device_id != "d-0700"]
    assert all(abs(battery.low_since - seen) <= timedelta(hours=1) for seen in behind if seen)


def test_uplink_story():
    """The battery of the gateway of s-16 was well when all fell silent."""
    battery = week("d-1600")
    assert battery.low_since is None
    assert battery.last_time
    assert battery.last_time < NOW - timedelta(hours=19)


def test_time_series_agrees_with_the_rows(ops_database: Path):
    """Count, range and latest value are those of the rows in the time (SR-105)."""
    series = week("d-0304", metric="flow_rate")
    with closing(sqlite3.connect(ops_database)) as connection:
        rows = connection.execute(
            "SELECT time, value FROM readings JOIN series USING (series_no) WHERE device_id = 'd-0304'"
            " AND metric = 'flow_rate' ORDER BY time"
        ).fetchall()
    inside = [value for time, value in rows if time >= (NOW - timedelta(days=7)).timestamp()]
    assert series.count == len(inside) == 0
    assert (series.min_value, series.max_value, series.last_value) == (None, None, None)
    month = devices.get_time_series(
        device_id="d-0304", start_time=NOW - timedelta(days=30), end_time=NOW, metric="flow_rate"
    )
    values = [value for _, value in rows]
    assert (month.count, month.min_value, month.max_value) == (len(values), min(values), max(values))
    assert month.last_value == values[-1]
    assert month.summary.startswith(f"{month.count} readings of ")
    last = datetime.fromtimestamp(rows[-1][0], UTC)
    one = devices.get_time_series(
        device_id="d-0304", start_time=last, end_time=last + timedelta(seconds=1), metric="flow_rate"
    )
    assert one.summary.startswith("1 reading of ")


def test_metric_the_device_lacks():
    """A metric that a device does not report raises `ToolFailed`, whose hint names the metrics that it reports."""
    with pytest.raises(ToolFailed, match="does not report level") as caught:
        week("d-0700", metric="level")
    assert caught.value.hint
    assert caught.value.hint.issues[0].allowed == ["battery_voltage"]


async def test_scan_finds_every_offline_device(meta: ToolCallMeta):
    """A scan reads each device of a site, and finds that every offline device is silent."""
    scan = await devices.scan_site(site_id="s-3", meta=meta)
    assert scan.scanned_count == 13
    silent = [finding for finding in scan.findings if finding.condition == "silent"]
    assert [finding.device_id for finding in silent] == ["d-0304", "d-0309", "d-0312"]
    assert scan.silent_count == 3
    assert all(finding.since for finding in silent)


async def test_scan_finds_stuck_patchy_and_unheard_devices(meta: ToolCallMeta):
    """A sensor that hangs, a device with gaps and a device that never reported are distinguished."""
    scan = await devices.scan_site(site_id="s-11", meta=meta)
    found = {finding.device_id: finding.condition for finding in scan.findings}
    assert (found["d-1103"], found["d-1106"], found["d-1108"]) == ("stuck", "never_reported", "gaps")
    stuck = next(finding for finding in scan.findings if finding.condition == "stuck")
    assert stuck.since
    assert NOW - timedelta(hours=62) < stuck.since < NOW - timedelta(hours=58)


async def test_scan_is_bounded(meta: ToolCallMeta):
    """A scan with more findings than its limit says so."""
    scan = await devices.scan_site(site_id="s-7", meta=meta, limit=5)
    assert (scan.returned, scan.total, scan.truncated) == (5, 13, True)
    assert scan.silent_count == 13


async def test_every_scan_is_recorded(meta: ToolCallMeta):
    """Each execution leaves a row with its call, key, attempt and end."""
    await devices.scan_site(site_id="s-3", meta=meta)
    await devices.scan_site(site_id="s-3", meta=meta.model_copy(update={"attempt": 2}))
    rows = history("r")
    assert [(row["tool"], row["tool_call_id"], row["idempotency_key"], row["attempt"]) for row in rows] == [
        ("ops.devices.scan_site", "c1", "k1", 1),
        ("ops.devices.scan_site", "c1", "k1", 2),
    ]
    assert all(row["finished_at"] >= row["started_at"] for row in rows)


async def test_failed_execution_has_no_end(meta: ToolCallMeta, monkeypatch: pytest.MonkeyPatch):
    """An execution that does not finish leaves a row without an end."""

    def fail(_device: object) -> None:
        raise OSError("gone")

    monkeypatch.setattr(devices, "_examine", fail)
    with pytest.raises(OSError, match="gone"):
        await devices.scan_site(site_id="s-3", meta=meta)
    assert [row["finished_at"] for row in history()] == [None]


def test_as_of_is_not_the_wall_clock():
    """The current time of the data is fixed in the file."""
    with database.opened() as connection:
        assert database.as_of(connection) == NOW

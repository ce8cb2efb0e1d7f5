"""Fill the operations database with a month of readings, which are the same for the same seed."""

import random
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from toolsets import curves
from toolsets.field_work import WORK_ORDERS
from toolsets.fleet import DAY, HOUR, Device, contacts, devices, sites
from toolsets.runbook_texts import RUNBOOKS
from toolsets.schema import SCHEMA, SEARCH_INDEX, VERSION

__all__ = ["AS_OF", "SEED", "STARTS_AT", "fill"]

SEED = 7
AS_OF = int(datetime(2026, 3, 31, 6, tzinfo=UTC).timestamp())
"""The time of the data, in seconds since 1970."""
STARTS_AT = AS_OF - 30 * DAY
HEARD_OF = 2 * HOUR
"""A device that reported within this time before `AS_OF` is online; in seconds."""


_MEASURES = {
    "flow_meter": curves.Measure("flow_rate", "m3/h", 42.0, 9.0, 3.0),
    "pressure_sensor": curves.Measure("pressure", "bar", 4.1, 0.4, 0.2),
    "level_sensor": curves.Measure("level", "m", 2.6, 0.5, 0.1),
    "pump_controller": curves.Measure("power", "kW", 11.0, 4.0, 1.5),
    "weather_station": curves.Measure("temperature", "degC", 12.0, 6.0, 1.0),
}


class _Series(NamedTuple):
    metric: str
    unit: str
    interval: int
    low_limit: float | None
    curve: curves.Curve


def fill(connection: sqlite3.Connection, seed: int) -> None:
    """Make the tables and their rows."""
    rng = random.Random(seed)  # noqa: S311 - a data set, not a secret
    connection.executescript(SCHEMA)
    connection.execute("BEGIN")
    connection.execute("INSERT INTO dataset VALUES (?, ?, ?)", (seed, STARTS_AT, AS_OF))
    for site in sites():
        connection.execute(
            "INSERT INTO sites VALUES (?, ?, ?, ?, ?)",
            (site.site_id, site.number, site.name, site.region, site.gateway_id),
        )
        for device in devices(rng, site):
            _add(connection, rng, device)
    connection.executemany(
        "INSERT INTO profiles (site_id, role, name, email, phone, valid_until) VALUES (?, ?, ?, ?, ?, ?)",
        [(c.site_id, c.role, c.name, c.email, c.phone, c.valid_until) for c in contacts(rng)],
    )
    connection.executemany(
        "INSERT INTO runbooks VALUES (?, ?, ?, ?)",
        [(r.runbook_id, r.title, r.summary, "\n".join(r.steps)) for r in RUNBOOKS],
    )
    _add_work_orders(connection)
    _derive_status(connection)
    connection.execute("COMMIT")
    _index_runbooks(connection)
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _add(connection: sqlite3.Connection, rng: random.Random, device: Device) -> None:
    connection.execute(
        "INSERT INTO devices VALUES (?, ?, ?, ?, ?, ?, ?, NULL, 'unknown')",
        (
            device.device_id,
            device.site_id,
            device.name,
            device.kind,
            device.model,
            device.firmware,
            device.installed_on,
        ),
    )
    for series in _series_of(rng, device):
        series_no = connection.execute(
            "INSERT INTO series (device_id, metric, unit, interval_s, low_limit) VALUES (?, ?, ?, ?, ?)",
            (device.device_id, series.metric, series.unit, series.interval, series.low_limit),
        ).lastrowid
        if not device.fate.never_reported:
            times = curves.report_times(rng, device.fate, series.interval, STARTS_AT, AS_OF)
            connection.executemany(
                "INSERT INTO readings VALUES (?, ?, ?)",
                ((series_no, time, round(series.curve(time), 3)) for time in times),
            )


def _series_of(rng: random.Random, device: Device) -> Iterator[_Series]:
    fate = device.fate
    if device.kind == "gateway":
        curve = curves.gateway(rng, fate, AS_OF)
        yield _Series("battery_voltage", "V", HOUR // 4, curves.GATEWAY_LOW, curve)
        return
    yield _Series("battery_voltage", "V", 6 * HOUR, curves.CELL_LOW, curves.cell(rng, fate, STARTS_AT))
    measure = _MEASURES[device.kind]
    yield _Series(measure.metric, measure.unit, HOUR, None, curves.sensor(rng, fate, AS_OF, measure))


def _add_work_orders(connection: sqlite3.Connection) -> None:
    for number, order in enumerate(WORK_ORDERS, start=1001):
        times = (order.opened, order.starts, order.ends, order.closed)
        connection.execute(
            "INSERT INTO work_orders VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                number,
                order.site_id,
                order.summary,
                order.priority,
                "open" if order.closed is None else "closed",
                order.cuts,
                *(None if time is None else AS_OF + time for time in times),
            ),
        )


def _derive_status(connection: sqlite3.Connection) -> None:
    """Set the status by the readings: online, offline, or unknown for a device that never reported."""
    connection.execute(
        "UPDATE devices SET last_seen = (SELECT max(time) FROM series JOIN readings USING (series_no)"
        " WHERE series.device_id = devices.device_id)"
    )
    connection.execute(
        "UPDATE devices SET status = CASE WHEN last_seen IS NULL THEN 'unknown'"
        " WHEN last_seen < ? THEN 'offline' ELSE 'online' END",
        (AS_OF - HEARD_OF,),
    )


def _index_runbooks(connection: sqlite3.Connection) -> None:
    try:
        connection.executescript(SEARCH_INDEX)
    except sqlite3.OperationalError as error:
        if "no such module" not in str(error):
            raise

"""The tables of the operations database, filled with a month of readings by seed."""

import math
import random
import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from toolsets.fleet import DAY, HOUR, WORK_ORDERS, Device, Fate, contacts, devices, sites
from toolsets.runbook_texts import RUNBOOKS

__all__ = [
    "AS_OF",
    "CELL_LOW",
    "GATEWAY_LOW",
    "SCHEMA",
    "SEARCH_INDEX",
    "SEED",
    "STARTS_AT",
    "VERSION",
    "Curve",
    "Measure",
    "cell",
    "fill",
    "gateway",
    "report_times",
    "sensor",
]

VERSION = 2
"""Changes with the tables or the generated data; a file of another version is refused."""

SCHEMA = """
CREATE TABLE dataset (seed INTEGER NOT NULL, starts_at INTEGER NOT NULL, as_of INTEGER NOT NULL);

CREATE TABLE sites (
    site_id TEXT PRIMARY KEY,
    number INTEGER NOT NULL,
    name TEXT NOT NULL,
    region TEXT NOT NULL,
    gateway_id TEXT NOT NULL
);

CREATE TABLE devices (
    device_id TEXT PRIMARY KEY,
    site_id TEXT NOT NULL REFERENCES sites,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    model TEXT NOT NULL,
    firmware TEXT NOT NULL,
    installed_on TEXT NOT NULL,
    last_seen INTEGER,
    status TEXT NOT NULL
);
CREATE INDEX devices_by_site ON devices (site_id, status, device_id);

CREATE TABLE series (
    series_no INTEGER PRIMARY KEY,
    device_id TEXT NOT NULL REFERENCES devices,
    metric TEXT NOT NULL,
    unit TEXT NOT NULL,
    interval_s INTEGER NOT NULL,
    low_limit REAL,
    UNIQUE (device_id, metric)
);

CREATE TABLE readings (
    series_no INTEGER NOT NULL REFERENCES series,
    time INTEGER NOT NULL,
    value REAL NOT NULL,
    PRIMARY KEY (series_no, time)
) WITHOUT ROWID;

CREATE TABLE profiles (
    site_id TEXT NOT NULL REFERENCES sites,
    role TEXT NOT NULL,
    name TEXT NOT NULL,
    email TEXT NOT NULL,
    phone TEXT,
    valid_until TEXT,
    revision INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (site_id, role)
);

CREATE TABLE profile_writes (idempotency_key TEXT PRIMARY KEY, profile TEXT NOT NULL);

CREATE TABLE runbooks (
    runbook_id TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    summary TEXT NOT NULL,
    steps TEXT NOT NULL
);

CREATE TABLE work_orders (
    order_no INTEGER PRIMARY KEY,
    site_id TEXT NOT NULL REFERENCES sites,
    summary TEXT NOT NULL COLLATE NOCASE,
    priority TEXT NOT NULL,
    status TEXT NOT NULL,
    cuts TEXT,
    opened_at INTEGER NOT NULL,
    starts_at INTEGER,
    ends_at INTEGER,
    closed_at INTEGER
);
CREATE UNIQUE INDEX work_orders_open ON work_orders (site_id, summary) WHERE status = 'open';

CREATE TABLE executions (
    execution_no INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    tool_call_id TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    started_at TEXT NOT NULL,
    finished_at TEXT
);
"""
"""Times are seconds since 1970, except in `executions`, where they are ISO 8601 for people."""

SEARCH_INDEX = """
CREATE VIRTUAL TABLE runbooks_index USING fts5 (runbook_id UNINDEXED, title, summary, steps, tokenize = 'porter');
INSERT INTO runbooks_index SELECT runbook_id, title, summary, steps FROM runbooks;
"""
"""The full-text index, for SQLite with FTS5; without it, searches read the table."""


GATEWAY_LOW = 10.5
"""Volts under which a gateway's battery no longer powers it."""
CELL_LOW = 3.0
"""Volts under which a device's lithium cell is worn out."""
_HOLDS = 9.5 * HOUR
"""Seconds that a gateway's battery stays above its low limit without mains power."""
_COLLAPSES = 1.5 * HOUR
"""Seconds from the low limit to 0 V."""
_MONITOR_OUTLIVES = HOUR
"""Seconds that the battery monitor, which has a cell and a modem of its own, reports after that."""


class Measure(NamedTuple):
    """The metric of a kind of device, with its mean, its daily swing and its noise."""

    metric: str
    unit: str
    mean: float
    swing: float
    jitter: float


Curve = Callable[[int], float]
"""Returns the value at a time in seconds since 1970."""


def report_times(rng: random.Random, fate: Fate, interval: int, starts_at: int, as_of: int) -> list[int]:
    """Return a time for each interval that has a reading.

    Single readings are lost, some hours have outages, and a silence may be at the end.
    """
    end = as_of if fate.silent_for is None else as_of - round(fate.silent_for * HOUR)
    if fate.mains_lost and not fate.mains_lost[1]:
        end = round(as_of - fate.mains_lost[0] * HOUR + _HOLDS + _COLLAPSES + _MONITOR_OUTLIVES)
    begins = [rng.randrange(starts_at, end - DAY) for _ in range(fate.outages)]
    outages = [(begin, begin + rng.randint(3, 12) * HOUR) for begin in begins]
    draw = rng.random
    return [
        time
        for time in range(starts_at, end + 1, interval)
        if draw() > 0.006 and not any(begin <= time < back for begin, back in outages)
    ]


def gateway(rng: random.Random, fate: Fate, as_of: int) -> Curve:
    """Return the voltage of a lead-acid battery.

    It is about 13 V with a daily wave, and falls while mains power is lost.
    """
    lost, back = (as_of - hours * HOUR for hours in fate.mains_lost or (0, 0))
    noise = rng.random

    def volts(time: int) -> float:
        if not lost <= time < back:
            return 13.1 + 0.2 * _day_wave(time) + 0.08 * (noise() - 0.5)
        ran = time - lost
        if ran <= _HOLDS:
            return 12.7 - (12.7 - GATEWAY_LOW) * ran / _HOLDS + 0.02 * (noise() - 0.5)
        return max(0.0, GATEWAY_LOW * (1 - (ran - _HOLDS) / _COLLAPSES))

    return volts


def cell(rng: random.Random, fate: Fate, starts_at: int) -> Curve:
    """Return the voltage of a lithium cell: 3.6 V, or a fall over weeks if it fails."""
    slide = 1.1 / (19 * DAY) if fate.cell_failing else 0.0
    noise = rng.random
    return lambda time: 3.6 + 0.04 * (noise() - 0.5) - slide * (time - starts_at)


def sensor(rng: random.Random, fate: Fate, as_of: int, measure: Measure) -> Curve:
    """Return the values of a sensor.

    They have a mean near the measure's, a daily wave and noise. While the sensor hangs, they are one value.
    """
    mean = measure.mean * rng.uniform(0.8, 1.2)
    stuck_at = math.inf if fate.stuck_for is None else as_of - fate.stuck_for * HOUR
    noise = rng.random

    def value(time: int) -> float:
        if time >= stuck_at:
            return mean
        return mean + measure.swing * _day_wave(time) + measure.jitter * (noise() - 0.5)

    return value


_WAVE = [math.sin(2 * math.pi * quarter / 96 - math.pi / 2) for quarter in range(96)]


def _day_wave(time: int) -> float:
    return _WAVE[time % DAY // (HOUR // 4)]


SEED = 7
AS_OF = int(datetime(2026, 3, 31, 6, tzinfo=UTC).timestamp())
"""The time of the data, in seconds since 1970."""
STARTS_AT = AS_OF - 30 * DAY
HEARD_OF = 2 * HOUR
"""A device that reported within this time before `AS_OF` is online; in seconds."""


_MEASURES = {
    "flow_meter": Measure("flow_rate", "m3/h", 42.0, 9.0, 3.0),
    "pressure_sensor": Measure("pressure", "bar", 4.1, 0.4, 0.2),
    "level_sensor": Measure("level", "m", 2.6, 0.5, 0.1),
    "pump_controller": Measure("power", "kW", 11.0, 4.0, 1.5),
    "weather_station": Measure("temperature", "degC", 12.0, 6.0, 1.0),
}


class _Series(NamedTuple):
    metric: str
    unit: str
    interval: int
    low_limit: float | None
    curve: Curve


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
            times = report_times(rng, device.fate, series.interval, STARTS_AT, AS_OF)
            connection.executemany(
                "INSERT INTO readings VALUES (?, ?, ?)",
                ((series_no, time, round(series.curve(time), 3)) for time in times),
            )


def _series_of(rng: random.Random, device: Device) -> Iterator[_Series]:
    fate = device.fate
    if device.kind == "gateway":
        curve = gateway(rng, fate, AS_OF)
        yield _Series("battery_voltage", "V", HOUR // 4, GATEWAY_LOW, curve)
        return
    yield _Series("battery_voltage", "V", 6 * HOUR, CELL_LOW, cell(rng, fate, STARTS_AT))
    measure = _MEASURES[device.kind]
    yield _Series(measure.metric, measure.unit, HOUR, None, sensor(rng, fate, AS_OF, measure))


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
    """Set the status by the readings: online, offline, or unknown without any."""
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

"""What the tools of `ops.devices` take and answer."""

from datetime import datetime
from typing import Literal

from toolsets.arguments import Limit, SiteId
from toolsets.shape import BoundedShape, Shape

__all__ = [
    "Device",
    "DeviceList",
    "DeviceRecord",
    "Finding",
    "ListDevices",
    "Metric",
    "SiteScan",
    "Status",
    "TimeSeries",
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
    """Where it is."""
    name: str
    """What people call it."""
    kind: str
    """`gateway`, `flow_meter`, `pressure_sensor`, `level_sensor`, `pump_controller` or `weather_station`."""
    status: Status
    """`online` when heard of in the last two hours, `unknown` when never heard of."""
    last_seen: datetime | None
    """When it last reported."""


class DeviceList(BoundedShape):
    """Devices in the order of their ids (SR-32)."""

    devices: list[Device]
    """The devices."""


class DeviceRecord(Device):
    """One device, in full."""

    model: str
    """The maker's name for it."""
    firmware: str
    """What runs on it."""
    installed_on: str
    """The day it was installed."""
    metrics: list[str]
    """What it reports, each a series of readings."""
    as_of: datetime
    """The data set's now."""


class TimeSeries(Shape):
    """One metric of one device over a time, in short (SR-105)."""

    summary: str
    """The same in a sentence."""
    count: int
    """Readings in the time."""
    device_id: str
    """The device."""
    metric: Metric
    """What was read."""
    min_value: float | None = None
    """The smallest; none without readings."""
    max_value: float | None = None
    """The largest; none without readings."""
    unit: str | None = None
    """The unit of the values."""
    last_value: float | None = None
    """The latest in the time."""
    last_time: datetime | None = None
    """When that was."""
    low_limit: float | None = None
    """Under this the value is too low for the device to work; none where there is no limit."""
    low_since: datetime | None = None
    """Since when all readings are under the limit; none when the latest is not."""


class Finding(Shape):
    """What the month of readings says about one device."""

    device_id: str
    """The device."""
    name: str
    """What people call it."""
    kind: str
    """Its kind, such as `gateway`."""
    condition: Literal["never_reported", "silent", "stuck", "gaps"]
    """`silent`: nothing for two hours or more; `stuck`: one value for half a day; `gaps`: hours missing."""
    since: datetime | None
    """When it was last heard of, or when it got stuck."""
    longest_gap_hours: float
    """The longest time between two readings."""


class SiteScan(BoundedShape):
    """The devices of a site that something is wrong with."""

    findings: list[Finding]
    """One for each device in trouble, in the order of their ids."""
    scanned_count: int
    """Devices whose month was read."""
    silent_count: int
    """Devices not heard of in the last two hours."""

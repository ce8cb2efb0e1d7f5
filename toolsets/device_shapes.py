"""Payloads and results of the tools of `ops.devices`."""

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

"""Ids of the tools that the planners use, and the result fields that they read.

Unknown fields are ignored, so that a toolset can add fields while a planner runs.
"""

from datetime import date, datetime

from pydantic import BaseModel, ConfigDict

from sojourn.flows import ToolReference

__all__ = [
    "ASK_ADVICE",
    "GET_DEVICE",
    "GET_RUNBOOK",
    "GET_SITE",
    "GET_TIME_SERIES",
    "LIST_DEVICES",
    "LIST_SITES",
    "LIST_WORK_ORDERS",
    "OPEN_WORK_ORDER",
    "SCAN_SITE",
    "SEARCH_RUNBOOKS",
    "UPSERT_PROFILE",
    "Advice",
    "Contact",
    "Device",
    "DeviceList",
    "DeviceRecord",
    "Fact",
    "Finding",
    "OpenedWorkOrder",
    "Profile",
    "Runbook",
    "RunbookHit",
    "RunbookList",
    "Scan",
    "Series",
    "Site",
    "SiteList",
    "SiteSummary",
    "WorkOrder",
    "WorkOrderList",
]


class Fact(BaseModel):
    """The result of a tool."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)


class _List(Fact):
    returned: int
    total: int | None = None
    truncated: bool = False
    refinement_hint: str | None = None

    @property
    def known_total(self) -> int:
        """The total of items, or if that is unknown those returned."""
        return self.returned if self.total is None else self.total


class SiteSummary(Fact):
    """A site with its device counts."""

    site_id: str
    name: str
    device_count: int
    online_count: int
    offline_count: int


class SiteList(_List):
    """A list of sites."""

    sites: list[SiteSummary]
    as_of: datetime


class Contact(Fact):
    """A contact of a site."""

    name: str
    email: str
    phone: str | None = None
    valid_until: date | None = None
    expired: bool = False


class Site(SiteSummary):
    """A site with its gateway and contacts."""

    gateway_id: str
    contacts: list[Contact] = []
    as_of: datetime


class Device(Fact):
    """One device, in short."""

    device_id: str
    site_id: str
    name: str
    status: str
    last_seen: datetime | None = None


class DeviceList(_List):
    """A list of devices."""

    devices: list[Device]


class DeviceRecord(Device):
    """One device, with the time of the data."""

    as_of: datetime


class Series(Fact):
    """One metric of a device over a time, summarized."""

    device_id: str
    metric: str
    count: int
    min_value: float | None = None
    max_value: float | None = None
    unit: str | None = None
    last_value: float | None = None
    last_time: datetime | None = None
    low_limit: float | None = None
    low_since: datetime | None = None


class Finding(Fact):
    """What is wrong with one device."""

    device_id: str
    kind: str
    condition: str
    since: datetime | None = None


class Scan(_List):
    """What is wrong with the devices of a site."""

    findings: list[Finding]
    scanned_count: int
    silent_count: int


class WorkOrder(Fact):
    """One piece of work at a site."""

    work_order_id: str
    summary: str
    priority: str
    status: str
    cuts: str | None = None
    opened_at: datetime
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    closed_at: datetime | None = None


class WorkOrderList(_List):
    """Work orders, the latest first."""

    work_orders: list[WorkOrder]


class OpenedWorkOrder(WorkOrder):
    """A work order that is open."""

    created: bool


class Profile(Fact):
    """A contact that was registered."""

    site_id: str
    role: str
    name: str
    email: str
    replaced: str | None = None


class RunbookHit(Fact):
    """A runbook found by a search."""

    runbook_id: str
    title: str


class RunbookList(_List):
    """Runbooks found by a search, the best match first."""

    runbooks: list[RunbookHit]


class Runbook(RunbookHit):
    """A runbook with its steps."""

    steps: list[str]


class Advice(Fact):
    """What to do, as the advisor answers (`ops.advice.ask`)."""

    answer: str
    """The advice in a sentence."""
    runbook_id: str | None = None
    """The runbook it comes from; none when no runbook fits."""
    steps: list[str] = []
    """What to do, in order."""

    @property
    def numbered(self) -> list[str]:
        """The steps as numbered lines."""
        return [f"{number}. {step}" for number, step in enumerate(self.steps, start=1)]


ASK_ADVICE = ToolReference("ops.advice.ask", Advice)
GET_DEVICE = ToolReference("ops.devices.get_device", DeviceRecord)
GET_RUNBOOK = ToolReference("ops.runbooks.get_runbook", Runbook)
GET_SITE = ToolReference("ops.sites.get_site", Site)
GET_TIME_SERIES = ToolReference("ops.devices.get_time_series", Series)
LIST_DEVICES = ToolReference("ops.devices.list_devices", DeviceList)
LIST_SITES = ToolReference("ops.sites.list_sites", SiteList)
LIST_WORK_ORDERS = ToolReference("ops.work_orders.list_work_orders", WorkOrderList)
OPEN_WORK_ORDER = ToolReference("ops.work_orders.open_work_order", OpenedWorkOrder)
SCAN_SITE = ToolReference("ops.devices.scan_site", Scan)
SEARCH_RUNBOOKS = ToolReference("ops.runbooks.search_runbooks", RunbookList)
UPSERT_PROFILE = ToolReference("ops.profiles.upsert", Profile)

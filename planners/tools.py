"""The tools that these planners use, by id; a planner never imports the tools themselves."""

from planners.facts import (
    Advice,
    DeviceList,
    DeviceRecord,
    OpenedWorkOrder,
    Profile,
    Runbook,
    RunbookList,
    Scan,
    Series,
    Site,
    SiteList,
    WorkOrderList,
)
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
]

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

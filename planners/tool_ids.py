"""Ids of the tools that these planners use; a planner never imports the tools themselves."""

from sojourn import ToolId

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

ASK_ADVICE = ToolId("ops.advice.ask")
GET_DEVICE = ToolId("ops.devices.get_device")
GET_RUNBOOK = ToolId("ops.runbooks.get_runbook")
GET_SITE = ToolId("ops.sites.get_site")
GET_TIME_SERIES = ToolId("ops.devices.get_time_series")
LIST_DEVICES = ToolId("ops.devices.list_devices")
LIST_SITES = ToolId("ops.sites.list_sites")
LIST_WORK_ORDERS = ToolId("ops.work_orders.list_work_orders")
OPEN_WORK_ORDER = ToolId("ops.work_orders.open_work_order")
SCAN_SITE = ToolId("ops.devices.scan_site")
SEARCH_RUNBOOKS = ToolId("ops.runbooks.search_runbooks")
UPSERT_PROFILE = ToolId("ops.profiles.upsert")

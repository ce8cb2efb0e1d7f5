"""Questions that one or two calls answer: sites, devices, readings."""

from typing import Any

from planners.facts import (
    GET_DEVICE,
    GET_TIME_SERIES,
    LIST_DEVICES,
    LIST_SITES,
    DeviceList,
    SiteList,
    WorkOrderList,
)
from planners.questions import ListDevices, ListSites, ShowReadings
from planners.wording import count, device_line, moment
from sojourn import Case

__all__ = ["list_devices", "list_sites", "say_truncated", "show_readings"]

_MAX_LINES = 20
"""Most devices that are listed."""


def list_sites(case: Case, question: ListSites) -> None:
    """List the sites, all or those in one condition."""
    found = case.call(LIST_SITES, condition=question.condition)
    adjective = f"{question.condition} " if question.condition else ""
    case.say(
        f"{count(found.known_total, adjective + 'site')} as of {moment(found.as_of)}"
        + (":" if found.sites else ".")
    )
    for site in found.sites:
        offline = f"{site.offline_count} of {count(site.device_count, 'device')} offline"
        case.say(f"- {site.site_id} {site.name}: {offline}")
    say_truncated(case, found)


def list_devices(case: Case, question: ListDevices) -> None:
    """List the devices of a site, all or those of one status."""
    found = case.call(LIST_DEVICES, site_id=question.site_id, status=question.status, limit=question.limit)
    adjective = f"{question.status} " if question.status else ""
    site_id = found.devices[0].site_id if found.devices else question.site_id
    case.say(
        f"{site_id} has {count(found.known_total, adjective + 'device')}" + (":" if found.devices else ".")
    )
    for device in found.devices[:_MAX_LINES]:
        case.say(device_line(device))
    if found.returned > _MAX_LINES:
        case.say(f"- and {found.returned - _MAX_LINES} more")
    say_truncated(case, found)


def show_readings(case: Case, question: ShowReadings) -> dict[str, Any]:
    """Summarize a device's readings of the question's window, or the last week."""
    device = case.call(GET_DEVICE, device_id=question.device_id)
    asked = question.window.bounds(device.as_of) if question.window else {}
    series = case.call(GET_TIME_SERIES, device_id=device.device_id, metric=question.metric, **asked)
    metric = series.metric.replace("_", " ")
    if series.last_time is None:
        case.say(f"{device.device_id} ({device.name}) reported no {metric} in this time.")
        return series.model_dump(mode="json")
    case.say(
        f"{device.device_id} ({device.name}): {count(series.count, 'reading')} of {metric}, "
        f"{series.min_value:g} to {series.max_value:g} {series.unit}; "
        f"the latest, {series.last_value:g} {series.unit}, at {moment(series.last_time)}."
    )
    if series.low_since and series.low_limit is not None:
        case.say(
            f"It is under its limit of {series.low_limit:g} {series.unit} since {moment(series.low_since)}."
        )
    return series.model_dump(mode="json")


def say_truncated(case: Case, found: SiteList | DeviceList | WorkOrderList) -> None:
    """Say that a list was cut, if it was, and how to get the rest."""
    if found.truncated:
        total = "unknown" if found.total is None else str(found.total)
        case.say(f"Showing {found.returned} of {total}. {found.refinement_hint or ''}".rstrip())

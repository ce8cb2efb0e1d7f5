"""List a site's work orders, open one, and find the one behind a silence."""

from datetime import datetime
from typing import Any

from planners.diagnosis import Diagnosis
from planners.facts import GET_SITE, LIST_WORK_ORDERS, OPEN_WORK_ORDER, Site, WorkOrder
from planners.failures import sentence_of
from planners.lookups import say_truncated
from planners.questions import ListWorkOrders, OpenWorkOrder
from planners.wording import count, moment
from sojourn import CallFailed, Case

__all__ = ["explains", "list_work_orders", "open_work_order", "planned_outage"]


def list_work_orders(case: Case, question: ListWorkOrders) -> dict[str, Any]:
    """List the work orders of a site, all or those of one status."""
    site = case.call(GET_SITE, site_id=question.site_id)
    found = case.call(LIST_WORK_ORDERS, site_id=site.site_id, status=question.status)
    adjective = f"{question.status} " if question.status else ""
    case.say(
        f"{site.site_id} ({site.name}) has {count(found.known_total, adjective + 'work order')}"
        + (":" if found.work_orders else ".")
    )
    for order in found.work_orders:
        case.say(_line(order))
    say_truncated(case, found)
    return found.model_dump(mode="json")


def open_work_order(case: Case, question: OpenWorkOrder) -> dict[str, Any]:
    """Open a work order at a site. Ask for the summary if the question has none."""
    site = case.call(GET_SITE, site_id=question.site_id)
    order = case.call(
        OPEN_WORK_ORDER,
        site_id=site.site_id,
        summary=question.summary,
        priority=question.priority,
    )
    how = "is open" if order.created else "was open already"
    case.say(
        f"Work order {order.work_order_id} {how} at {site.site_id} ({site.name}): "
        f"{order.summary}, {order.priority} priority, since {moment(order.opened_at)}."
    )
    return order.model_dump(mode="json")


def planned_outage(case: Case, site: Site, diagnosis: Diagnosis) -> WorkOrder | None:
    """Name and return the open work order that explains a dark site.

    None without one, or if they cannot be read.
    """
    try:
        found = case.call(LIST_WORK_ORDERS, site_id=site.site_id, status="open")
    except CallFailed as failed:
        case.say(f"Its work orders could not be read. {sentence_of(case, failed)}")
        return None
    outage = next((order for order in found.work_orders if explains(order, diagnosis, site.as_of)), None)
    others = [order for order in found.work_orders if order != outage]
    if outage:
        verb = "explains" if outage.cuts == diagnosis.cause else "may explain"
        case.say(
            f"Work order {outage.work_order_id} {verb} it: {outage.summary}, planned {_plan(outage)}. It is still open."
        )
    elif others:
        case.say(f"None of the open work orders of {site.site_id} explains it:")
    else:
        case.say(f"No work order is open at {site.site_id}.")
    for order in others:
        case.say(_line(order))
    say_truncated(case, found)
    return outage


def explains(order: WorkOrder, diagnosis: Diagnosis, as_of: datetime) -> bool:
    """Whether work explains the silence of a site.

    It cuts power or uplink, whichever the site lacks, and was planned for the time when the site fell silent.
    An unclear cause fits any work that cuts something; `as_of` stands for a time that is not known.
    """
    if order.cuts is None or diagnosis.cause not in {order.cuts, "unclear"} or order.starts_at is None:
        return False
    since = diagnosis.silent_since or as_of
    return order.starts_at <= since and (order.ends_at is None or since <= order.ends_at)


def _line(order: WorkOrder) -> str:
    state = f"closed {moment(order.closed_at)}" if order.closed_at else order.status
    return (
        f"- {order.work_order_id} {order.summary}: {state}, {order.priority} priority, planned {_plan(order)}"
    )


def _plan(order: WorkOrder) -> str:
    if order.starts_at is None:
        return "for no time yet"
    end = f" to {moment(order.ends_at)}" if order.ends_at else ""
    return f"from {moment(order.starts_at)}{end}"

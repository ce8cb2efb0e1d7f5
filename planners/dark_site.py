"""Why a site is dark, from its devices, its battery, a scan of the month and its work orders; and what to do."""

from typing import Any

from planners.case import Case
from planners.contact import name_contact
from planners.diagnosis import Diagnosis, diagnose
from planners.facts import Advice, DeviceList, Scan, Series, Site
from planners.questions import WhyDark
from planners.tool_ids import ASK_ADVICE, GET_SITE, GET_TIME_SERIES, LIST_DEVICES, SCAN_SITE
from planners.windows import WEEK, Window
from planners.wording import count, device_line, moment
from planners.work_orders import planned_outage

__all__ = ["why_dark"]


def why_dark(case: Case, question: WhyDark) -> dict[str, Any]:
    """Say what is wrong, what to do, and who is the contact; if none is valid, ask for one."""
    site = case.call(GET_SITE, Site, site_id=question.site_id)
    offline = case.call(LIST_DEVICES, DeviceList, site_id=site.site_id, status="offline")
    if site.online_count:
        _say_not_dark(case, site, offline)
        return {"site_id": site.site_id, "dark": False}
    case.say(
        f"{site.site_id} ({site.name}) is dark: {offline.known_total} of {count(site.device_count, 'device')} "
        f"offline as of {moment(site.as_of)}."
    )
    diagnosis = _diagnosis(case, question, site)
    for sentence in diagnosis.sentences:
        case.say(sentence)
    outage = planned_outage(case, site, diagnosis)
    advice = _advice(case, site, diagnosis)
    name_contact(case, site)
    return {
        "site_id": site.site_id,
        "dark": True,
        "cause": diagnosis.cause,
        "work_order_id": outage.work_order_id if outage else None,
        "runbook_id": advice.runbook_id if advice else None,
    }


def _say_not_dark(case: Case, site: Site, offline: DeviceList) -> None:
    case.say(
        f"{site.site_id} ({site.name}) is not dark: {site.online_count} of {count(site.device_count, 'device')} "
        f"online as of {moment(site.as_of)}, {offline.known_total} offline."
    )
    for device in offline.devices:
        case.say(device_line(device))


def _diagnosis(case: Case, question: WhyDark, site: Site) -> Diagnosis:
    """Read the gateway's battery, over the question's window or else the last week, and scan the site in parallel."""
    asked = question.window.bounds(site.as_of) if question.window else {}
    case.defaults |= Window(length=WEEK).bounds(site.as_of)
    case.ahead(SCAN_SITE, site_id=site.site_id)
    battery = case.attempt(GET_TIME_SERIES, Series, device_id=site.gateway_id, **asked)
    scan = case.attempt(SCAN_SITE, Scan, site_id=site.site_id)
    return diagnose(site.gateway_id, battery, scan)


def _advice(case: Case, site: Site, diagnosis: Diagnosis) -> Advice | None:
    if not case.offers(ASK_ADVICE):
        return None
    advice = case.attempt(ASK_ADVICE, Advice, question=diagnosis.query, site_id=site.site_id)
    if advice is not None:
        case.say(advice.answer)
        for number, step in enumerate(advice.steps, start=1):
            case.say(f"{number}. {step}")
    return advice

"""Find out why a site is dark, and what to do.

The findings come from its devices, its battery, a scan of the month and its work orders.
"""

from typing import Any, TypeVar

from planners.contact import name_contact
from planners.diagnosis import Diagnosis, diagnose
from planners.facts import (
    ASK_ADVICE,
    GET_SITE,
    GET_TIME_SERIES,
    LIST_DEVICES,
    SCAN_SITE,
    Advice,
    DeviceList,
    Site,
)
from planners.failures import sentence_of
from planners.questions import WhyDark
from planners.wording import count, device_line, moment
from planners.work_orders import planned_outage
from sojourn import CallFailed, Case
from sojourn.flows import Begun

__all__ = ["why_dark"]

T = TypeVar("T")


def why_dark(case: Case, question: WhyDark) -> dict[str, Any]:
    """Give the finding, the advice and the contact. Without a valid contact, ask."""
    site = case.call(GET_SITE, site_id=question.site_id)
    offline = case.call(LIST_DEVICES, site_id=site.site_id, status="offline")
    if site.online_count:
        _say_not_dark(case, site, offline)
        return {"site_id": site.site_id, "dark": False}
    _find(
        case,
        f"{site.site_id} ({site.name}) is dark: {offline.known_total} of {count(site.device_count, 'device')} "
        f"offline as of {moment(site.as_of)}.",
    )
    diagnosis = _diagnosis(case, question, site)
    for sentence in diagnosis.sentences:
        _find(case, sentence)
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


def _find(case: Case, sentence: str) -> None:
    """Add a finding to the answer, and as a note for people who follow the run."""
    case.say(sentence)
    case.note(sentence)


def _diagnosis(case: Case, question: WhyDark, site: Site) -> Diagnosis:
    """Read the gateway's battery over the question's window, and scan the site."""
    window = question.window.bounds(site.as_of) if question.window else {}
    battery = case.begin(GET_TIME_SERIES, device_id=site.gateway_id, **window)
    scan = case.begin(SCAN_SITE, site_id=site.site_id)
    return diagnose(site.gateway_id, _result(case, battery), _result(case, scan))


def _advice(case: Case, site: Site, diagnosis: Diagnosis) -> Advice | None:
    if not case.offers(ASK_ADVICE):
        return None
    advice = _result(case, case.begin(ASK_ADVICE, question=diagnosis.query, site_id=site.site_id))
    for line in [advice.answer, *advice.numbered] if advice else []:
        case.say(line)
    return advice


def _result(case: Case, begun: Begun[T]) -> T | None:
    """Return the result of a call. If it failed, say so in the answer and return None."""
    try:
        return begun.result()
    except CallFailed as failed:
        case.say(sentence_of(case, failed))
        return None

"""Questions that the operations assistant understands, read from text."""

import re
from dataclasses import dataclass

from planners.windows import Window, window_of

__all__ = [
    "ABILITIES",
    "DEVICE",
    "EMAIL",
    "EXAMPLES",
    "PHONE",
    "SITE",
    "ListDevices",
    "ListSites",
    "ListWorkOrders",
    "OpenWorkOrder",
    "Question",
    "RegisterContact",
    "ShowReadings",
    "WhyDark",
    "question_of",
]

EXAMPLES = (
    "why is site s-7 dark",
    "which sites are dark",
    "list offline devices of s-3",
    "show the battery of device d-0700 over the last week",
    "register Ana Lima as contact of s-7",
    "what work is planned at s-3",
    "open a work order for s-7: replace the gateway battery",
)
"""One of each kind."""

ABILITIES = "\n- ".join(("I can answer questions such as:", *EXAMPLES))
"""What the assistant can do, for the answer to a message that asks nothing it understands."""

EMAIL = re.compile(r"[^\s<>,;\"']+@[^\s<>,;\"']+")
PHONE = re.compile(r"\+\d[\d ]{5,18}\d")


@dataclass(frozen=True, slots=True)
class WhyDark:
    """Why no device of a site reports."""

    site_id: str
    window: Window | None


@dataclass(frozen=True, slots=True)
class ListSites:
    """Which sites there are, all or in one condition."""

    condition: str | None


@dataclass(frozen=True, slots=True)
class ListDevices:
    """Which devices a site has, all or of one status."""

    site_id: str
    status: str | None
    limit: int | None


@dataclass(frozen=True, slots=True)
class ShowReadings:
    """What a device reported."""

    device_id: str
    metric: str
    window: Window | None


@dataclass(frozen=True, slots=True)
class RegisterContact:
    """Register a contact of a site, with the values that the question has."""

    site_id: str
    name: str
    email: str | None
    role: str | None
    phone: str | None


@dataclass(frozen=True, slots=True)
class ListWorkOrders:
    """What work there is at a site, all or of one status."""

    site_id: str
    status: str | None


@dataclass(frozen=True, slots=True)
class OpenWorkOrder:
    """Open a work order at a site, with the values that the question has."""

    site_id: str
    summary: str | None
    priority: str | None


Question = WhyDark | ListSites | ListDevices | ShowReadings | RegisterContact | ListWorkOrders | OpenWorkOrder

SITE = re.compile(r"\b(s-\w{1,10})\b", re.IGNORECASE)
DEVICE = re.compile(r"\b(d-\w{1,10})\b", re.IGNORECASE)
_REGISTER = re.compile(
    r"\b(?:register|add|make|set)\s+(?P<who>.+?)\s+as\s+(?:an?\s+|the\s+|new\s+)*"
    r"(?:(?P<role>operations|maintenance|owner)\s+)?contact\b",
    re.IGNORECASE,
)
_OPEN = re.compile(
    r"\b(?:open|create|raise)\s+(?:an?\s+|the\s+|new\s+)*"
    r"(?:(?P<priority>low|normal|high|urgent)(?:[\s-]+priority)?\s+)?work\s+order\b",
    re.IGNORECASE,
)
_WORK = re.compile(
    r"\bwork\s+orders?\b|\b(?:planned|scheduled)\s+work\b|\bwork\s+(?:is|was)\b", re.IGNORECASE
)
_WORK_STATUSES = {
    "open": "open",
    "planned": "open",
    "scheduled": "open",
    "closed": "closed",
    "done": "closed",
}
_METRICS = {
    "battery": "battery_voltage",
    "flow": "flow_rate",
    "pressure": "pressure",
    "level": "level",
    "power": "power",
    "temperature": "temperature",
}


def question_of(text: str) -> Question | None:
    """Return the question in a text, or None if it has none that is understood."""
    words = set(re.findall(r"[a-z]+", text.lower()))
    site, device = SITE.search(text), DEVICE.search(text)
    if site and (match := _OPEN.search(text)):
        return _open(text[max(site.end(), match.end()) :], match, site[1].lower())
    if site and (match := _REGISTER.search(text)):
        return _register(text, match, site[1].lower())
    if device:
        metric = next((metric for word, metric in _METRICS.items() if word in words), None)
        return ShowReadings(device[1].lower(), metric, window_of(text)) if metric else None
    if site and words & {"why", "diagnose"}:
        return WhyDark(site[1].lower(), window_of(text))
    if site and _WORK.search(text):
        status = next((status for word, status in _WORK_STATUSES.items() if word in words), None)
        return ListWorkOrders(site[1].lower(), status)
    if site and words & {"device", "devices"}:
        limit = re.search(r"\b(\d+)\s+(?:\w+\s+)?devices\b", text)
        status = next(iter(words & {"online", "offline", "unknown"}), None)
        return ListDevices(site[1].lower(), status, int(limit[1]) if limit else None)
    if not site and words & {"sites"} and words & {"which", "what", "list", "show"}:
        return ListSites(next(iter(words & {"dark", "degraded", "healthy"}), None))
    return None


def _open(rest: str, match: re.Match[str], site_id: str) -> OpenWorkOrder:
    summary = re.sub(r"^\s*(?:to\b|[:,.-])?\s*|[\s.?!]*$", "", rest)
    return OpenWorkOrder(
        site_id=site_id,
        summary=summary[:1].upper() + summary[1:] or None,
        priority=match["priority"].lower() if match["priority"] else None,
    )


def _register(text: str, match: re.Match[str], site_id: str) -> RegisterContact:
    email, phone = EMAIL.search(text), PHONE.search(text)
    name = EMAIL.sub("", PHONE.sub("", match["who"])).strip(" <>(),;")
    return RegisterContact(
        site_id=site_id,
        name=name.title() if name.islower() else name,
        email=email[0].rstrip(".") if email else None,
        role=match["role"].lower() if match["role"] else None,
        phone=phone[0] if phone else None,
    )

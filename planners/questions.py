"""Questions that the assistant understands, with time windows and follow-ups."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

__all__ = [
    "ABILITIES",
    "DEVICE",
    "EMAIL",
    "EXAMPLES",
    "PHONE",
    "SITE",
    "WEEK",
    "ListDevices",
    "ListSites",
    "ListWorkOrders",
    "OpenWorkOrder",
    "Question",
    "RegisterContact",
    "ShowReadings",
    "WhyDark",
    "Window",
    "asked",
    "begins_anew",
    "question_of",
    "rfc3339",
    "window_of",
]

WEEK = timedelta(days=7)

_UNITS = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": WEEK, "month": timedelta(days=30)}
_LAST = re.compile(r"\b(?:last|past)\s+(?:(\d{1,3})\s+)?(hour|day|week|month)s?\b", re.IGNORECASE)
_BETWEEN = re.compile(
    r"\b(?:from|between)\s+(\d{4}-\d{2}-\d{2}\S*)\s+(?:to|until|and)\s+(\d{4}-\d{2}-\d{2}\S*)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Window:
    """A duration that ends now, or two times as the question has them."""

    length: timedelta | None = None
    start: str = ""
    end: str = ""

    def bounds(self, now: datetime) -> dict[str, str]:
        """Return the arguments `start_time` and `end_time` of a tool."""
        if self.length is None:
            return {"start_time": self.start, "end_time": self.end}
        return {"start_time": rfc3339(now - self.length), "end_time": rfc3339(now)}


def window_of(text: str) -> Window | None:
    """Return the time window in a text, such as `last 3 days`, or None."""
    if match := _LAST.search(text):
        return Window(length=int(match[1] or 1) * _UNITS[match[2].lower()])
    if match := _BETWEEN.search(text):
        return Window(start=_moment(match[1]), end=_moment(match[2]))
    return None


def rfc3339(moment: datetime) -> str:
    """Return a time such as `2026-03-31T06:00:00Z`."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _moment(written: str) -> str:
    """Return a date as its start in UTC, and any other text unchanged."""
    written = written.rstrip(".,;?!")
    return f"{written}T00:00:00Z" if len(written) == len("2026-03-10") else written


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


_FILLERS = re.compile(
    r"\b(?:a|about|again|also|and|at|between|days?|device|for|from|hours?|how|is|it|last|months?|of|ok|okay|on|over"
    r"|past|please|same|site|so|that|the|then|this|to|until|weeks?|what)\b"
)
"""Words that a follow-up may have beside what it is about."""

_LEADS = re.compile(r"\s*(?:and|again|(?:what|how) about)\b", re.IGNORECASE)
"""How a follow-up begins that is no answer: a site alone may be one."""

_REPEATS = re.compile(r"\b(?:and|again)\b", re.IGNORECASE)
"""What asks the last question once more, where nothing else is named."""


def asked(text: str, earlier: Iterable[str]) -> Question | None:
    """Return the question in a text.

    `and s-3?` is the last question of the texts before, about s-3.
    """
    texts = list(earlier)
    start = next((place for place in reversed(range(len(texts))) if question_of(texts[place])), len(texts))
    known: Question | None = None
    for each in texts[start:]:
        known = _meant(each, known) or known
    return _meant(text, known)


def begins_anew(text: str) -> bool:
    """Whether a message is a question or a follow-up in any state.

    Such a state is an open question of the planner, or a turn under way.
    """
    return question_of(text) is not None or (_LEADS.match(text) is not None and not _says_more(text))


def _meant(text: str, known: Question | None) -> Question | None:
    return question_of(text) or (known and _about(text, known))


def _about(text: str, known: Question) -> Question | None:
    """Return the known question about the site, device or time of a text.

    None if the text has anything else.
    """
    site, device, window = SITE.search(text), DEVICE.search(text), window_of(text)
    changes = {
        name: value
        for name, value in (
            ("site_id", site and site[1].lower()),
            ("device_id", device and device[1].lower()),
            ("window", window),
        )
        if value
    }
    is_lookup = isinstance(known, WhyDark | ListDevices | ShowReadings | ListWorkOrders)
    fits = is_lookup and all(hasattr(known, name) for name in changes)
    repeats = changes or _REPEATS.search(text)
    return replace(known, **changes) if fits and repeats and not _says_more(text) else None


def _says_more(text: str) -> bool:
    """Whether a text has more in it than fillers, and what a follow-up is about."""
    rest = _FILLERS.sub("", DEVICE.sub("", SITE.sub("", text)).lower())
    return re.search(r"[^\W\d_]", rest) is not None

"""Sixty tasks, the same each time: a request in plain words, a call that is wrong in one of eleven ways, and the right one.

Each of the six tools has tasks of ten of the eleven kinds of faults. The values are drawn with a fixed seed; the
faults are listed here, tool by tool.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

__all__ = ["KINDS", "Change", "Task", "tasks"]

SEED = 60

KINDS = {
    "one_missing": "one field missing",
    "three_missing": "three fields missing",
    "wrong_enum": "no word of the enum",
    "wrong_type": "wrong type",
    "out_of_range": "out of range",
    "bad_format": "bad format or pattern",
    "misspelt": "a misspelt field",
    "deep": "deep in a list or union",
    "several": "several at once",
    "no_json": "cut off, or no JSON",
    "unknown_tool": "unknown tool",
}


@dataclass(frozen=True, slots=True)
class Change:
    """The fault of one field of a call."""

    at: str
    """The path of the field, such as `lines.1.sku`."""
    to: Any = None
    """The value sent in its place; None leaves the field out, unless `named` renames it."""
    named: str | None = None
    """The wrong name under which the right value is sent."""
    fits: Sequence[str] = ()
    """What the text of the refusal has to contain about what would fit."""

    @property
    def field(self) -> str:
        """The faulty field as people write it: `lines[1].sku`."""
        *parents, last = self.at.split(".")
        tokens = [*parents, self.named or last]
        return "".join(f"[{t}]" if t.isdecimal() else f".{t}" if n else t for n, t in enumerate(tokens))


@dataclass(frozen=True, slots=True)
class Task:
    """One task: the request, the right call and the seeded bad call."""

    id: str
    tool: str
    """The right tool."""
    kind: str
    """One of `KINDS`."""
    wanted: str
    """The request in plain words, with every value that the call needs."""
    right: dict[str, Any]
    """The right payload."""
    called: str
    """The tool that the seeded call names."""
    sent: dict[str, Any] | None
    """The payload of the seeded call; None if its arguments are no JSON."""
    raw: str | None
    """The arguments of the seeded call as text, if they are no JSON; else None."""
    changes: Sequence[Change]
    """The faults of its fields."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One tool, with what its tasks are made of."""

    tool: str
    draw: Callable[[random.Random], dict[str, Any]]
    say: Callable[[dict[str, Any]], str]
    faults: Mapping[str, Sequence[Change]]
    """The faults of its fields, by kind."""
    misnamed: str | None = None
    """The name of a tool that does not exist, for `unknown_tool`."""
    breaks: Callable[[str], str] | None = None
    """Turns arguments as JSON into text that is no JSON, for `no_json`."""

    @property
    def kinds(self) -> list[str]:
        """The kinds of faults of its tasks, in the order of `KINDS`."""
        own = {
            *self.faults,
            *(["unknown_tool"] if self.misnamed else []),
            *(["no_json"] if self.breaks else []),
        }
        return [kind for kind in KINDS if kind in own]


def tasks(count: int = 60) -> list[Task]:
    """The first `count` tasks; tools and kinds take turns."""
    drawn = random.Random(SEED)
    made = [
        _task(subject, subject.kinds[(step + number) % len(subject.kinds)], drawn)
        for step in range(10)
        for number, subject in enumerate(SUBJECTS)
    ]
    return made[:count]


def _task(subject: Subject, kind: str, drawn: random.Random) -> Task:
    right = subject.draw(drawn)
    changes = subject.faults.get(kind, ())
    sent = deepcopy(right)
    for change in changes:
        _apply(sent, change)
    raw = subject.breaks(json.dumps(right)) if kind == "no_json" and subject.breaks else None
    return Task(
        id=f"{subject.tool}:{kind}",
        tool=subject.tool,
        kind=kind,
        wanted=subject.say(right),
        right=right,
        called=(subject.misnamed if kind == "unknown_tool" else None) or subject.tool,
        sent=sent if raw is None else None,
        raw=raw,
        changes=changes,
    )


def _apply(payload: Any, change: Change) -> None:
    *parents, last = [int(token) if token.isdecimal() else token for token in change.at.split(".")]
    for token in parents:
        payload = payload[token]
    if change.named:
        payload[change.named] = payload.pop(last)
    elif change.to is None:
        del payload[last]
    else:
        payload[last] = change.to


def _cut(arguments: str) -> str:
    """Cut the arguments off, as at a model's output limit."""
    return arguments[: len(arguments) * 2 // 3]


def _python(arguments: str) -> str:
    """Write the arguments as a Python literal."""
    return repr(json.loads(arguments))


def _talk(arguments: str) -> str:
    """Put a sentence before the arguments."""
    return f"Sure, I will call the tool with these arguments: {arguments}"


def _day(drawn: random.Random, month: int) -> str:
    return f"2026-{month:02d}-{drawn.randint(1, 28):02d}"


def _time(drawn: random.Random, month: int) -> str:
    return f"{_day(drawn, month)}T{drawn.randint(0, 23):02d}:{drawn.choice((0, 15, 30, 45)):02d}:00Z"


# Orders of a shop.


def _order(drawn: random.Random) -> dict[str, Any]:
    units = drawn.sample(["piece", "box", "pallet"], 3)
    return {
        "customer_id": f"C-{drawn.randint(10_000, 99_999)}",
        "delivery": drawn.choice(["standard", "express"]),
        "lines": [
            {"sku": f"{sku}-{drawn.randint(1000, 9999)}", "quantity": drawn.randint(2, 400), "unit": unit}
            for sku, unit in zip(("ABC", "KLM", "XYZ"), units, strict=True)
        ],
        "deliver_by": _day(drawn, 9),
    }


def _say_order(order: dict[str, Any]) -> str:
    lines = ", ".join(f"{line['quantity']} of {line['sku']} by the {line['unit']}" for line in order["lines"])
    return (
        f"Customer {order['customer_id']} orders {lines}. Send it by {order['delivery']} delivery, "
        f"to be there by {order['deliver_by']} at the latest."
    )


# Readings of sensors.


def _search(drawn: random.Random) -> dict[str, Any]:
    metrics = drawn.sample(["temperature", "humidity", "power"], 2)
    return {
        "site_id": f"S-{drawn.randint(100, 999)}",
        "since": _time(drawn, 3),
        "until": _time(drawn, 4),
        "severity": drawn.choice(["info", "warning", "critical"]),
        "limit": drawn.randint(10, 900),
        "thresholds": [{"metric": metric, "above": drawn.randint(10, 90)} for metric in metrics],
    }


def _say_search(query: dict[str, Any]) -> str:
    above = " and ".join(f"{each['metric']} above {each['above']}" for each in query["thresholds"])
    return (
        f"Find readings of severity {query['severity']} at site {query['site_id']} with {above}, "
        f"since {query['since']} and until {query['until']}; {query['limit']} at most."
    )


# Trips.


def _trip(drawn: random.Random) -> dict[str, Any]:
    names = drawn.sample(["Ada Moss", "Ben Ruiz", "Cleo Brandt", "Dan Okafor", "Eva Lind"], 2)
    return {
        "destination": drawn.choice(["LIS", "OSL", "KEF", "ATH"]),
        "departs_on": _day(drawn, 5),
        "returns_on": _day(drawn, 6),
        "cabin": drawn.choice(["economy", "premium", "business"]),
        "bags": drawn.randint(1, 5),
        "passengers": [
            {
                "name": name,
                "born": f"19{drawn.randint(60, 99)}-0{drawn.randint(1, 9)}-{drawn.randint(10, 28)}",
                "document": {
                    "kind": drawn.choice(["passport", "id_card"]),
                    "number": f"{drawn.choice('KLMN')}{drawn.randint(1_000_000, 9_999_999)}",
                },
            }
            for name in names
        ],
    }


def _say_trip(trip: dict[str, Any]) -> str:
    people = " and ".join(
        f"{each['name']}, born {each['born']}, with {each['document']['kind'].replace('_', ' ')} "
        f"{each['document']['number']}"
        for each in trip["passengers"]
    )
    return (
        f"Book {trip['cabin']} class to {trip['destination']}, there on {trip['departs_on']} and back on "
        f"{trip['returns_on']}, with {trip['bags']} bags in all, for {people}."
    )


# Invoices.


def _invoice(drawn: random.Random) -> dict[str, Any]:
    texts = drawn.sample(["Design of the catalogue", "Translation", "Site survey", "Training"], 2)
    return {
        "client_email": f"{drawn.choice(['pay', 'office', 'ap'])}{drawn.randint(1, 99)}@example.com",
        "currency": drawn.choice(["EUR", "USD", "GBP", "CHF"]),
        "due_on": _day(drawn, 10),
        "discount_percent": drawn.randint(1, 20),
        "lines": [
            {
                "text": text,
                "hours": drawn.randint(2, 80),
                "rate": drawn.randint(40, 200),
                "tax": drawn.choice(["standard", "reduced", "none"]),
            }
            for text in texts
        ],
    }


def _say_invoice(invoice: dict[str, Any]) -> str:
    lines = "; ".join(
        f"{line['text']}, {line['hours']} hours at {line['rate']}, tax {line['tax']}"
        for line in invoice["lines"]
    )
    return (
        f"Send an invoice in {invoice['currency']} to {invoice['client_email']}, due on {invoice['due_on']}, "
        f"with {invoice['discount_percent']} percent off: {lines}."
    )


# Leave of employees.


def _leave(drawn: random.Random) -> dict[str, Any]:
    return {
        "employee_id": f"E-{drawn.randint(1000, 9999)}",
        "first_day": _day(drawn, 7),
        "last_day": _day(drawn, 8),
        "reason": drawn.choice(["vacation", "parental", "study"]),
        "paid_days": drawn.randint(1, 50),
        "cover": {
            "kind": "agency",
            "cost_center": f"CC-{drawn.randint(100, 999)}",
            "level": drawn.choice(["junior", "senior"]),
        },
        "handovers": [
            {"task": task, "email": f"{name}@example.com"}
            for task, name in zip(
                ("Payroll", "Weekly report"), drawn.sample(["ada", "ben", "cleo"], 2), strict=True
            )
        ],
    }


def _say_leave(leave: dict[str, Any]) -> str:
    given = " and ".join(f"{each['task']} goes to {each['email']}" for each in leave["handovers"])
    cover = leave["cover"]
    return (
        f"Employee {leave['employee_id']} asks for {leave['reason']} leave, the first day {leave['first_day']} and "
        f"the last {leave['last_day']}, {leave['paid_days']} of them paid. An agency stands in, at "
        f"{cover['level']} level, on cost center {cover['cost_center']}. {given}."
    )


# Reports.


def _report(drawn: random.Random) -> dict[str, Any]:
    titles = drawn.sample(["Sales by region", "Open cases", "Returns", "Visitors"], 2)
    return {
        "format": drawn.choice(["pdf", "csv", "html"]),
        "recipients": [f"{name}@example.com" for name in drawn.sample(["board", "ops", "sales"], 2)],
        "starts_at": _time(drawn, 2),
        "schedule": {
            "kind": "weekly",
            "weekday": drawn.choice(["monday", "wednesday", "friday"]),
            "at": f"{drawn.randint(10, 22)}:{drawn.choice((15, 30, 45))}",
        },
        "sections": [
            {"title": title, "chart": drawn.choice(["line", "bar", "table"]), "rows": drawn.randint(5, 90)}
            for title in titles
        ],
        "archive_days": drawn.randint(30, 300),
    }


def _say_report(report: dict[str, Any]) -> str:
    parts = " and ".join(f"{s['title']} as a {s['chart']} of {s['rows']} rows" for s in report["sections"])
    when = report["schedule"]
    return (
        f"Send a {report['format']} report every {when['weekday']} at {when['at']}, from {report['starts_at']} on, to "
        f"{' and '.join(report['recipients'])}, with {parts}; keep each for {report['archive_days']} days."
    )


SUBJECTS = [
    Subject(
        "shop.orders.place",
        _order,
        _say_order,
        {
            "one_missing": [Change("customer_id", fits=["required"])],
            "three_missing": [
                Change("customer_id", fits=["required"]),
                Change("delivery", fits=["required"]),
                Change("lines.1.sku", fits=["required"]),
            ],
            "wrong_enum": [Change("delivery", "overnight", fits=["standard", "express", "pickup"])],
            "wrong_type": [Change("lines.0.quantity", "a dozen", fits=["integer"])],
            "out_of_range": [Change("lines.2.quantity", 0, fits=["at least 1"])],
            "misspelt": [Change("deliver_by", named="deliver_bye", fits=["deliver_by"])],
            "deep": [Change("lines.2.unit", "crate", fits=["piece", "box", "pallet"])],
            "several": [
                Change("customer_id", "12345", fits=[r"^C-\d{5}$"]),
                Change("lines.0.unit", "boxes", fits=["piece", "box", "pallet"]),
                Change("lines.1.quantity", 9999, fits=["500"]),
            ],
        },
        misnamed="shop.orders.place_order",
        breaks=_cut,
    ),
    Subject(
        "ops.readings.search",
        _search,
        _say_search,
        {
            "one_missing": [Change("until", fits=["required"])],
            "wrong_enum": [Change("severity", "high", fits=["info", "warning", "critical"])],
            "wrong_type": [Change("limit", "all", fits=["integer"])],
            "out_of_range": [Change("limit", 5000, fits=["1000"])],
            "bad_format": [Change("since", "last Monday", fits=["date-time"])],
            "misspelt": [Change("severity", named="severty", fits=["severity"])],
            "deep": [Change("thresholds.1.metric", "temp", fits=["temperature", "humidity", "power"])],
            "several": [
                Change("site_id", "100", fits=[r"^S-\d{3}$"]),
                Change("until", "now", fits=["date-time"]),
                Change("thresholds.0.above", 180, fits=["100"]),
            ],
        },
        misnamed="ops.readings.find",
        breaks=_python,
    ),
    Subject(
        "travel.trips.book",
        _trip,
        _say_trip,
        {
            "one_missing": [Change("passengers.1.born", fits=["required"])],
            "three_missing": [
                Change("cabin", fits=["required"]),
                Change("bags", fits=["required"]),
                Change("passengers.0.document.number", fits=["required"]),
            ],
            "wrong_enum": [Change("cabin", "first", fits=["economy", "premium", "business"])],
            "wrong_type": [Change("bags", to=True, fits=["integer"])],
            "bad_format": [Change("departs_on", "05/24/2026", fits=["date"])],
            "misspelt": [Change("returns_on", named="return_on", fits=["returns_on"])],
            "deep": [Change("passengers.1.document.number", "1234567", fits=[r"^[A-Z]\d{7}$"])],
            "several": [
                Change("destination", "Lisbon", fits=["^[A-Z]{3}$"]),
                Change("returns_on", "in June", fits=["date"]),
                Change("passengers.0.document.kind", "driving_licence", fits=["passport", "id_card"]),
            ],
        },
        misnamed="travel.trips.reserve",
        breaks=_talk,
    ),
    Subject(
        "billing.invoices.issue",
        _invoice,
        _say_invoice,
        {
            "one_missing": [Change("lines.0.tax", fits=["required"])],
            "three_missing": [
                Change("currency", fits=["required"]),
                Change("due_on", fits=["required"]),
                Change("lines.1.rate", fits=["required"]),
            ],
            "wrong_enum": [Change("currency", "Euro", fits=["EUR", "USD", "GBP", "CHF"])],
            "wrong_type": [Change("lines.1.rate", "120 an hour", fits=["integer"])],
            "out_of_range": [Change("discount_percent", 45, fits=["30"])],
            "bad_format": [Change("client_email", "the office", fits=["email"])],
            "misspelt": [Change("discount_percent", named="discount_percentage", fits=["discount_percent"])],
            "deep": [Change("lines.1.hours", 0, fits=["0.25"])],
            "several": [
                Change("client_email", "pay at example", fits=["email"]),
                Change("currency", "$", fits=["EUR", "USD", "GBP", "CHF"]),
                Change("lines.0.tax", "VAT", fits=["standard", "reduced", "none"]),
                Change("lines.1.text", fits=["required"]),
            ],
        },
        breaks=_cut,
    ),
    Subject(
        "people.leave.request",
        _leave,
        _say_leave,
        {
            "one_missing": [Change("cover.level", fits=["required"])],
            "three_missing": [
                Change("last_day", fits=["required"]),
                Change("paid_days", fits=["required"]),
                Change("handovers.1.email", fits=["required"]),
            ],
            "wrong_enum": [Change("reason", "holiday", fits=["vacation", "parental", "study"])],
            "wrong_type": [Change("paid_days", [30], fits=["integer"])],
            "out_of_range": [Change("paid_days", 90, fits=["60"])],
            "bad_format": [Change("handovers.0.email", "Ada", fits=["email"])],
            "misspelt": [Change("cover.cost_center", named="cost_centre", fits=["cost_center"])],
            "deep": [Change("cover.level", "expert", fits=["junior", "senior"])],
            "several": [
                Change("employee_id", 4711, fits=["string"]),
                Change("first_day", "1 July", fits=["date"]),
                Change("cover.cost_center", "400", fits=[r"^CC-\d{3}$"]),
            ],
        },
        misnamed="people.absence.request",
    ),
    Subject(
        "media.reports.schedule",
        _report,
        _say_report,
        {
            "three_missing": [
                Change("format", fits=["required"]),
                Change("starts_at", fits=["required"]),
                Change("sections.0.chart", fits=["required"]),
            ],
            "wrong_enum": [Change("format", "xlsx", fits=["pdf", "csv", "html"])],
            "wrong_type": [Change("recipients", "board@example.com", fits=["array"])],
            "out_of_range": [Change("sections.1.rows", 1000, fits=["100"])],
            "bad_format": [Change("schedule.at", "9 am", fits=["must match"])],
            "misspelt": [Change("archive_days", named="archive_day", fits=["archive_days"])],
            "deep": [Change("schedule.weekday", "tuesday", fits=["monday", "wednesday", "friday"])],
            "several": [
                Change("format", "PDF file", fits=["pdf", "csv", "html"]),
                Change("recipients.0", "the board", fits=["email"]),
                Change("starts_at", "tomorrow", fits=["date-time"]),
                Change("sections.0.rows", 0, fits=["at least 1"]),
            ],
        },
        misnamed="media.reports.create",
        breaks=_python,
    ),
]

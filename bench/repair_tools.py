"""Six tools whose schemas have what real arguments fail at: enums, lists of objects, dates, ranges, patterns, unions."""

from datetime import date, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from sojourn import ToolCallMeta, Toolset

__all__ = ["RECEIVED", "toolsets"]

RECEIVED: dict[str, list[BaseModel]] = {}
"""The arguments of the executed calls, by run id."""


class Arguments(BaseModel):
    """Arguments of a tool, or a part of them; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


def received(meta: ToolCallMeta, arguments: BaseModel) -> str:
    """Record a call."""
    RECEIVED.setdefault(meta.run_id, []).append(arguments)
    return "done"


Email = Annotated[str, Field(json_schema_extra={"format": "email"})]
Clock = Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")]

orders = Toolset("shop.orders", description="Orders of a shop")


class OrderLine(Arguments):
    """What is bought."""

    sku: Annotated[str, Field(pattern=r"^[A-Z]{3}-\d{4}$")]
    quantity: Annotated[int, Field(ge=1, le=500)]
    unit: Literal["piece", "box", "pallet"]


class Order(Arguments):
    """An order."""

    customer_id: Annotated[str, Field(pattern=r"^C-\d{5}$")]
    delivery: Literal["standard", "express", "pickup"]
    lines: Annotated[list[OrderLine], Field(min_length=1, max_length=20)]
    deliver_by: date | None = None


@orders.tool
async def place(order: Order, meta: ToolCallMeta) -> str:
    """Place an order."""
    return received(meta, order)


readings = Toolset("ops.readings", description="Readings of sensors")


class Threshold(Arguments):
    """Readings of one metric above a value."""

    metric: Literal["temperature", "humidity", "power"]
    above: Annotated[float, Field(ge=0, le=100)]


class Search(Arguments):
    """A window of time at one site."""

    site_id: Annotated[str, Field(pattern=r"^S-\d{3}$")]
    since: datetime
    until: datetime
    severity: Literal["info", "warning", "critical"]
    limit: Annotated[int, Field(ge=1, le=1000)]
    thresholds: Annotated[list[Threshold], Field(min_length=1, max_length=5)]


@readings.tool
async def search(query: Search, meta: ToolCallMeta) -> str:
    """Search the readings of a site in a window of time."""
    return received(meta, query)


trips = Toolset("travel.trips", description="Trips")


class Document(Arguments):
    """What a passenger shows."""

    kind: Literal["passport", "id_card"]
    number: Annotated[str, Field(pattern=r"^[A-Z]\d{7}$")]


class Passenger(Arguments):
    """Who travels."""

    name: Annotated[str, Field(min_length=2, max_length=80)]
    born: date
    document: Document


class Trip(Arguments):
    """A journey there and back."""

    destination: Annotated[str, Field(pattern=r"^[A-Z]{3}$")]
    departs_on: date
    returns_on: date
    cabin: Literal["economy", "premium", "business"]
    bags: Annotated[int, Field(ge=0, le=5)]
    passengers: Annotated[list[Passenger], Field(min_length=1, max_length=9)]


@trips.tool
async def book(trip: Trip, meta: ToolCallMeta) -> str:
    """Book a trip."""
    return received(meta, trip)


invoices = Toolset("billing.invoices", description="Invoices")


class InvoiceLine(Arguments):
    """Work that was done."""

    text: Annotated[str, Field(min_length=3, max_length=100)]
    hours: Annotated[float, Field(ge=0.25, le=200)]
    rate: Annotated[int, Field(ge=1, le=1000)]
    tax: Literal["standard", "reduced", "none"]


class Invoice(Arguments):
    """An invoice."""

    client_email: Email
    currency: Literal["EUR", "USD", "GBP", "CHF"]
    due_on: date
    discount_percent: Annotated[float, Field(ge=0, le=30)] = 0
    lines: Annotated[list[InvoiceLine], Field(min_length=1, max_length=20)]


@invoices.tool
async def issue(invoice: Invoice, meta: ToolCallMeta) -> str:
    """Issue an invoice."""
    return received(meta, invoice)


leave = Toolset("people.leave", description="Leave of employees")


class Colleague(Arguments):
    """A colleague stands in."""

    kind: Literal["colleague"]
    employee_id: Annotated[str, Field(pattern=r"^E-\d{4}$")]


class Agency(Arguments):
    """Somebody from an agency stands in."""

    kind: Literal["agency"]
    cost_center: Annotated[str, Field(pattern=r"^CC-\d{3}$")]
    level: Literal["junior", "senior"]


class Handover(Arguments):
    """What is handed over."""

    task: Annotated[str, Field(min_length=3, max_length=100)]
    email: Email


class Leave(Arguments):
    """A leave."""

    employee_id: Annotated[str, Field(pattern=r"^E-\d{4}$")]
    first_day: date
    last_day: date
    reason: Literal["vacation", "parental", "study"]
    paid_days: Annotated[int, Field(ge=0, le=60)]
    cover: Annotated[Colleague | Agency, Field(discriminator="kind")]
    handovers: Annotated[list[Handover], Field(max_length=10)]


@leave.tool
async def request(leave: Leave, meta: ToolCallMeta) -> str:
    """Request a leave."""
    return received(meta, leave)


reports = Toolset("media.reports", description="Reports")


class Daily(Arguments):
    """Each day."""

    kind: Literal["daily"]
    at: Clock


class Weekly(Arguments):
    """Each week."""

    kind: Literal["weekly"]
    weekday: Literal["monday", "wednesday", "friday"]
    at: Clock


class Monthly(Arguments):
    """Each month."""

    kind: Literal["monthly"]
    day: Annotated[int, Field(ge=1, le=28)]
    at: Clock


class Section(Arguments):
    """A part of a report."""

    title: Annotated[str, Field(min_length=3, max_length=60)]
    chart: Literal["line", "bar", "table"]
    rows: Annotated[int, Field(ge=1, le=100)]


class Report(Arguments):
    """A report that is sent again and again."""

    format: Literal["pdf", "csv", "html"]
    recipients: Annotated[list[Email], Field(min_length=1, max_length=10)]
    starts_at: datetime
    schedule: Daily | Weekly | Monthly
    """A union without a discriminator, as many authors write it."""
    sections: Annotated[list[Section], Field(min_length=1, max_length=10)]
    archive_days: Annotated[int | None, Field(ge=1, le=365)] = None


@reports.tool
async def schedule(report: Report, meta: ToolCallMeta) -> str:
    """Schedule a report."""
    return received(meta, report)


toolsets: list[Toolset] = [orders, readings, trips, invoices, leave, reports]
"""All six toolsets, with one tool each."""


def as_received(tool: str, payload: dict[str, Any]) -> BaseModel:
    """The arguments with which a tool is called for a payload."""
    models: dict[str, type[BaseModel]] = {
        "shop.orders.place": Order,
        "ops.readings.search": Search,
        "travel.trips.book": Trip,
        "billing.invoices.issue": Invoice,
        "people.leave.request": Leave,
        "media.reports.schedule": Report,
    }
    return models[tool].model_validate(payload)

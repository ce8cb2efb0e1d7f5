"""A desk with six tools, and forty requests to it, as people write them: whole, vague, wrong, or about something else.

Two tools change something: a refund and a meeting. Each tool has an author's example, whose values no request has.
"""

from datetime import date
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from sojourn import Toolset

__all__ = ["REQUESTS", "toolsets"]


class Arguments(BaseModel):
    """Arguments of a tool; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class Done(BaseModel):
    """What a tool did."""

    done: str


OrderId = Annotated[str, Field(pattern=r"^SO-\d{5}$")]
Email = Annotated[str, Field(json_schema_extra={"format": "email"})]

weather = Toolset("desk.weather", description="The weather")


class Forecast(Arguments):
    """A forecast."""

    city: Annotated[str, Field(min_length=2, max_length=60)]
    days: Annotated[int, Field(ge=1, le=5)]
    unit: Literal["celsius", "fahrenheit"] = "celsius"


@weather.tool(read_only=True, examples=[{"city": "Lisbon", "days": 2}])
async def forecast(args: Forecast) -> Done:
    """Forecast the weather of a city."""
    return Done(done=f"{args.city}: {args.days} days of sun")


orders = Toolset("desk.orders", description="Orders of the shop")


class Find(Arguments):
    """One order."""

    order_id: OrderId


class Search(Arguments):
    """Orders by their state."""

    status: Literal["open", "shipped", "returned"]
    since: date | None = None
    limit: Annotated[int, Field(ge=1, le=50)] = 10


class Refund(Arguments):
    """A refund."""

    order_id: OrderId
    amount: Annotated[float, Field(gt=0, le=500)]
    reason: Literal["damaged", "late", "unwanted"]


@orders.tool(read_only=True, examples=[{"order_id": "SO-77310"}])
async def find(args: Find) -> Done:
    """Find one order by its number, and say where it is."""
    return Done(done=f"order {args.order_id} is shipped")


@orders.tool(read_only=True, examples=[{"status": "returned", "since": "2019-03-07"}])
async def search(args: Search) -> Done:
    """List orders by their state."""
    return Done(done=f"no {args.status} orders")


@orders.tool(examples=[{"order_id": "SO-10023", "amount": 12.5, "reason": "damaged"}])
async def refund(args: Refund) -> Done:
    """Refund an amount of an order to the customer."""
    return Done(done=f"refunded {args.amount} of {args.order_id}")


calendar = Toolset("desk.calendar", description="The calendar")


class Meeting(Arguments):
    """A meeting."""

    day: date
    starts_at: Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")]
    minutes: Annotated[int, Field(ge=15, le=240)]
    guests: Annotated[list[Email], Field(min_length=1, max_length=5)]


@calendar.tool(
    examples=[{"day": "2019-08-21", "starts_at": "07:45", "minutes": 35, "guests": ["ines@example.org"]}]
)
async def book(args: Meeting) -> Done:
    """Book a meeting with guests."""
    return Done(done=f"booked {args.day} {args.starts_at}")


documents = Toolset("desk.documents", description="Documents")


class Lookup(Arguments):
    """A search in documents."""

    words: Annotated[list[Annotated[str, Field(min_length=2)]], Field(min_length=1, max_length=5)]
    kind: Literal["contract", "invoice", "manual"]


@documents.tool(read_only=True, examples=[{"words": ["turbine", "warranty"], "kind": "manual"}])
async def lookup(args: Lookup) -> Done:
    """Search documents of one kind for words."""
    return Done(done=f"no {args.kind} has {', '.join(args.words)}")


toolsets: list[Toolset] = [weather, orders, calendar, documents]
"""The four toolsets, with six tools."""

REQUESTS: list[str] = [
    "What will the weather be in Oslo for the next 3 days?",
    "Weather in Oslo for 9 days?",
    "Will it rain tomorrow?",
    "Forecast for Kyiv, two days, in Fahrenheit please.",
    "I need the weather in Rome for a fortnight.",
    "How warm is it in X?",
    "Weather Porto 5 days kelvin",
    "Is it sunny?",
    "Where is my order SO-10452?",
    "where is order 10452",
    "I ordered something last week, the number is so-20981.",
    "Find order #88.",
    "Has order SO 31007 arrived yet?",
    "What happened to my order?",
    "Look up order SO-1.",
    "Show me the open orders.",
    "List all orders that were cancelled.",
    "Which orders were shipped since 1 March 2026?",
    "List 500 returned orders.",
    "Show orders from last month.",
    "Orders on hold, please, the newest 20.",
    "Refund 20 euros of order SO-10452, it arrived damaged.",
    "Refund everything of order 12",
    "I want my money back.",
    "Please refund SO-55120, it came too late.",
    "Give back 900 for order SO-40001 because it is broken.",
    "Refund order 88, I do not like it.",
    "Refund half of my last order.",
    "Book a meeting with bo@example.com on 2027-02-03 at 10:30 for 60 minutes.",
    "Book a meeting with Ann tomorrow at 9.",
    "Schedule half an hour with the sales team on Monday.",
    "Put a meeting of 5 minutes with cy@example.com on 2027-05-09 at 14:00.",
    "I want to meet dee@example.com next Friday afternoon.",
    "Meeting on 31/12/2026 at 8 pm with eva@example.com, one hour.",
    "Find the contract with the words penalty and delay.",
    "Search our invoices for paint.",
    "Do we have a document about holidays?",
    "Find me the recipe for bread.",
    "Hello, who are you?",
    "How do I return an item?",
]
"""What people ask, each once."""

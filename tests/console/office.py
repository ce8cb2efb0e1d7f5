"""An office whose clerk asks in every way: approvals, questions with and without a form, calls from outside; and the fixture of its console."""

import asyncio
from collections.abc import AsyncIterator
from datetime import date, timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from sojourn import (
    Agent,
    AgentTool,
    App,
    ApprovalPolicy,
    AwaitClarification,
    PlanResult,
    RunPolicy,
    Toolset,
    Turn,
)
from sojourn.asgi import create_app
from tests.console.conftest import Console
from tests.http.conftest import listening


class Carrier(StrEnum):
    """Who carries."""

    POST = "Post"
    CYCLE = "Cycle"


class Parcel(BaseModel):
    """What to weigh."""

    number: str = Field(description="As on its label")


class Weight(BaseModel):
    """A weight."""

    grams: int = Field(ge=1, le=30_000)
    scale: str
    damaged: bool = False


class Reading(BaseModel):
    """A reading that has more than simple values."""

    series: dict[str, list[int]]


orders = Toolset("office.orders", description="Orders")


@orders.tool(title="Find orders", read_only=True)
async def find(customer: str) -> list[str]:
    """Find the orders of a customer."""
    return ["7314", "7398"]


@orders.tool(
    title="Refund an order",
    destructive=True,
    open_world=True,
    idempotent=False,
    tags=["money"],
    confirmation="Refund {amount} EUR for order {order}?",
)
async def refund(order: str, amount: Annotated[float, Field(description="In euros")], note: str = "") -> str:
    """Send money back to the card that paid. It cannot be taken back."""
    return f"refunded {amount}"


@orders.tool(title="Book a pickup")
async def book(
    address: str, day: date, parcels: Annotated[int, Field(ge=1, le=20)], express: bool, carrier: Carrier
) -> str:
    """Book a pickup."""
    return "booked"


class Stop(BaseModel):
    """Where to stop."""

    city: str = Field(max_length=12)
    postcode: str | None = Field(default=None, pattern="^[0-9]{5}$")


class ByMail(BaseModel):
    """Tell by mail."""

    by: Literal["mail"] = "mail"
    address: str


class ByPhone(BaseModel):
    """Tell by phone."""

    by: Literal["phone"] = "phone"
    number: str = Field(min_length=3)


@orders.tool(title="Plan a tour")
async def tour(
    start: Stop,
    stops: list[Stop],
    tags: list[str],
    tell: ByMail | ByPhone,
    speed: Literal["slow", "fast"] | None = None,
) -> str:
    """Plan a tour."""
    return "planned"


scale = Toolset("office.scale", external=True)
weigh = scale.declare("weigh", args=Parcel, result=Weight)
read = scale.declare("read", args=Parcel, result=Reading)

TOUR = ["start", "stops", "tags", "tell", "speed"]
PICKUP = ["address", "day", "parcels", "express", "carrier"]


async def plan(turn: Turn) -> PlanResult:
    """Do what the first word says; a refund is of 12.5, and then of 1250, unless somebody denies it."""
    word, _, rest = turn.messages[0].text.partition(" ")
    rounds = sum(message.role == "tool" for message in turn.messages)
    is_new = sum(message.role == "user" for message in turn.messages) == 1
    is_denied = any(result.error for result in turn.tool_results)
    if word == "refund" and rounds < 3 and not is_denied:
        calls = [
            find.call(customer=rest or "Ana"),
            refund.call(order="7314", amount=12.5, note="broken"),
            refund.call(order="7314", amount=1250.0),
        ]
        return PlanResult.calls(calls[rounds])
    if word == "hostile" and rounds == 0:
        return PlanResult.calls(refund.call(order=rest, amount=1.0, note=rest))
    if word == "pickup" and is_new:
        wanted: Any = {"missing_fields": PICKUP, "restrict_to_tool": book.id}
        return PlanResult.ask(
            AwaitClarification(question="When is it?", expires_after=timedelta(hours=3), **wanted)
        )
    if word == "tour" and is_new:
        return PlanResult.ask(
            AwaitClarification(question="Which tour?", missing_fields=TOUR, restrict_to_tool=tour.id)
        )
    if word == "which" and is_new:
        return PlanResult.ask(AwaitClarification(question=f"Which one?\n\n{rest}".strip()))
    if word == "odd" and is_new:
        return PlanResult.ask(AwaitClarification(id=rest, question="Which one?"))
    if word == "weigh" and rounds == 0:
        return PlanResult.calls(weigh.call(Parcel(number="P-1")))
    if word == "both" and rounds == 0:
        return PlanResult.calls(weigh.call(Parcel(number="P-1")), weigh.call(Parcel(number="P-2")))
    if word == "read" and rounds == 0:
        return PlanResult.calls(read.call(Parcel(number="P-1")))
    if turn.tool_results:
        results = turn.tool_results
        return PlanResult.final("; ".join(str(each.error or each.result) for each in results))
    return PlanResult.final(turn.messages[-1].text)


class Packing(BaseModel):
    """What to pack."""

    note: str
    parcels: int = Field(ge=1, le=9)


async def pack(turn: Turn) -> PlanResult:
    """Say what was asked."""
    return PlanResult.final(turn.messages[-1].text)


packer = Agent("office.packer", description="Packs.", planner=pack)
packing = packer.export(
    "office.packing", tools=[AgentTool("pack", args=Packing, user="Pack {parcels}: {note}")]
)
clerk = Agent(
    "office.clerk",
    description="Handles orders.",
    planner=plan,
    uses=[orders, scale, packing],
    # A refund reads what a card's bank says: with "ask", no release would cover the next one.
    policy=RunPolicy(interrupts_allowed=True, approval=ApprovalPolicy(tainted="allow")),
)
app = App(agents=[clerk, packer], name="office")


class Office(Console):
    """The console of the office."""

    async def asks(self, text: str, **options: Any) -> tuple[Any, Any]:
        """Start a run, and wait until it asks and the store says so; returns the run and its wait."""
        run = await self.client.start("office.clerk", text, **options)
        wait = await self.asked(run)
        while not await self._is_listed(run):
            await asyncio.sleep(0.05)
        return run, wait

    async def _is_listed(self, run: Any) -> bool:
        async for each in self.client.list_runs(status="waiting"):
            if each.run_id == run.id:
                return True
        return False

    async def asked(self, run: Any, but: str = "") -> Any:
        """The open wait of a run, once it has one, and not that of this id."""
        status = await self.status_when(run, lambda status: status.awaits and status.awaits[0].id != but)
        return status.awaits[0]

    def page_of(self, run: Any, wait: Any) -> str:
        """The page of a wait."""
        return f"{self.url}/inbox/{run.id}/{wait.id}"


@pytest.fixture
async def office(serve, status_when) -> AsyncIterator[Office]:
    """The console of the office, with a worker."""
    client = await serve(app)
    web = create_app(app, client=client)
    async with listening(web) as url:
        yield Office(url, client, web, status_when)

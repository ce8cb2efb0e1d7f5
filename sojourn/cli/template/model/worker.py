"""A language model that looks orders up, and pays them back once a person approves."""

import os

from pydantic import BaseModel
from sojourn import (
    Agent,
    App,
    ApprovalPolicy,
    ModelPlanner,
    RunPolicy,
    ToolFailed,
    Toolset,
)


class Order(BaseModel):
    """An order of the shop."""

    number: str
    item: str
    price: int


ORDERS = {
    "A-1": Order(number="A-1", item="lamp", price=30),
    "A-2": Order(number="A-2", item="chair", price=45),
}

orders = Toolset("my_project.orders", description="The orders of the shop")


@orders.tool(read_only=True)
async def find(number: str) -> Order:
    """Find an order by its number, such as A-1."""
    if number not in ORDERS:
        raise ToolFailed(f"there is no order {number}; there are {', '.join(ORDERS)}")
    return ORDERS[number]


@orders.tool(destructive=True, confirmation="Pay {amount} back for order {number}?")
async def refund(number: str, amount: int) -> str:
    """Pay an order back, and return the number of the receipt."""
    return f"R-{number}-{amount}"


assistant = Agent(
    "my_project.assistant",
    description="Looks orders up, and pays them back.",
    planner=ModelPlanner(
        os.environ.get("SOJOURN_MODEL") or "anthropic:claude-sonnet-5-5",
        instructions="Answer questions about orders. Look up what you pay back. Be brief.",
    ),
    uses=[orders],
    # While a refund waits for a person, the model goes on answering messages.
    policy=RunPolicy(
        interrupts_allowed=True,
        max_tokens=100_000,
        approval=ApprovalPolicy(on_message="answer"),
    ),
)
app = App(name="my_project", agents=[assistant])

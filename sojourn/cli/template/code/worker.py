"""An assistant that looks orders up, and pays them back once a person approves."""

import re

from pydantic import BaseModel
from sojourn import Agent, App, CallFailed, Case, RunPolicy, ToolFailed, Toolset, flow


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
    """Find an order by its number."""
    if number not in ORDERS:
        raise ToolFailed(f"there is no order {number}; there are {', '.join(ORDERS)}")
    return ORDERS[number]


@orders.tool(destructive=True, confirmation="Pay {amount} back for order {number}?")
async def refund(number: str, amount: int) -> str:
    """Pay an order back, and return the number of the receipt."""
    return f"R-{number}-{amount}"


@flow
def plan(case: Case) -> str:
    """Find the order that is named, and pay it back if that is asked."""
    named = re.search(r"\bA-\d+", case.text)
    if not named:
        return "Name an order, such as A-1."
    try:
        order = case.call(find, number=named[0])
        if "refund" not in case.text.lower():
            return f"Order {order.number} is a {order.item} for {order.price}."
        receipt = case.call(refund, number=order.number, amount=order.price)
    except CallFailed as failed:
        return f"That did not work: {failed.error}."
    return f"Paid {order.price} back for order {order.number}: receipt {receipt}."


assistant = Agent(
    "my_project.assistant",
    description="Looks orders up, and pays them back.",
    planner=plan,
    uses=[orders],
    policy=RunPolicy(interrupts_allowed=True),
)
app = App(agents=[assistant])

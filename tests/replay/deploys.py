"""An app in two versions: as its runs were recorded, and with one incompatible edit."""

import uuid
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from sojourn import (
    Agent,
    AgentTool,
    App,
    ApprovalPolicy,
    AwaitClarification,
    PlanResult,
    RunPolicy,
    ToolRequest,
    Toolset,
)
from sojourn.flows import Case, flow

__all__ = ["EDITS", "shop"]

ASKING = RunPolicy(interrupts_allowed=True)

EDITS = {
    "agent_removed": ("flow", "agent_gone"),
    "tool_removed": ("approval", "tool_gone"),
    "field_required": ("approval", "arguments_refused"),
    "approvers_changed": ("approval", "wait_changed"),
    "form_changed": ("question", "wait_changed"),
    "queue_moved": ("remote_clerk", "queue_gone"),
    "step_renamed": ("flow", "passes_by"),
    "step_dropped": ("flow", "passes_by"),
    "last_step_replaced": ("half", "passes_by"),
    "clock_in_flow": ("flow", "planner_fails"),
    "result_field_renamed": ("clerk", "planner_fails"),
    "effect_repeated": ("clerk", "repeats"),
    "answer_changed": ("parent", "result_refused"),
    "external_result_changed": ("outside_clerk", "result_refused"),
}
"""The edits of the app: the agent whose recorded run each harms, and the problem it makes."""


class Topic(BaseModel):
    topic: str


def shop(edit: str = "", *, queue: str = "shop-remote") -> App:
    """Return the app with one edit, or as it was recorded."""
    return App(agents=[*_flows(edit), *_waiting(edit, queue), *_deciding(edit)])


def _flows(edit: str) -> Sequence[Agent]:
    orders = Toolset("shop.orders")

    @orders.tool
    async def reserve(order_id: str) -> str:
        """Reserve an order."""
        return f"reserved {order_id}"

    async def pay(order_id: str, amount: int) -> str:
        """Pay an order."""
        return f"paid {amount} for {order_id}"

    if edit == "step_renamed":
        pay.__name__ = "pay_out"
    pay_tool: Any = orders.tool(pay)

    @orders.tool(confirmation="Ship {order_id}?", destructive=True)
    async def ship(order_id: str) -> str:
        """Ship an order."""
        return f"shipped {order_id}"

    @orders.tool
    async def send_mail(order_id: str) -> str:
        """Send a mail."""
        return f"sent {order_id}"

    @flow
    async def whole(case: Case) -> str:
        """Reserve and pay."""
        order = str(uuid.uuid4()) if edit == "clock_in_flow" else "o-1"
        case.call(reserve, order_id=order)
        if edit != "step_dropped":
            case.call(pay_tool, order_id="o-1", amount=30)
        return "Done."

    @flow
    async def half(case: Case) -> str:
        """Reserve, then ship once a person approves."""
        case.call(reserve, order_id="o-2")
        case.call(send_mail if edit == "last_step_replaced" else ship, order_id="o-2")
        return "Done."

    name = "shop.buyer" if edit == "agent_removed" else "shop.flow"
    return [
        Agent(name, planner=whole, uses=[orders], policy=ASKING),
        Agent("shop.half", planner=half, uses=[orders], policy=ASKING),
    ]


def _waiting(edit: str, queue: str) -> Sequence[Agent]:
    wiping = Toolset("shop.wiping")

    async def wipe(disk: str) -> str:
        """Wipe a disk."""
        return disk

    async def wipe_safely(disk: str, reason: str) -> str:
        """Wipe a disk."""
        return disk + reason

    async def look(disk: str) -> str:
        """Look at a disk."""
        return disk

    approvers = ["owner"] if edit == "approvers_changed" else ["approver"]
    wipe_safely.__name__ = "wipe"
    if edit != "tool_removed":
        chosen = wipe_safely if edit == "field_required" else wipe
        wiping.tool(confirmation="Wipe {disk}?", destructive=True, approvers=approvers)(chosen)
    if edit == "form_changed":
        look.__annotations__["disk"] = int
    wiping.tool(look)
    remote = Toolset("shop.remote", task_queue="elsewhere" if edit == "queue_moved" else queue)

    @remote.tool
    async def press(button: str) -> str:
        """Press a button."""
        return button

    async def approval(_turn: Any) -> PlanResult:
        return PlanResult.calls(ToolRequest(name="shop.wiping.wipe", payload={"disk": "d-1"}))

    async def question(turn: Any) -> PlanResult:
        if len(turn.messages) > 1:
            return PlanResult.final("Thanks.")
        asked = AwaitClarification(
            question="Which disk?", restrict_to_tool="shop.wiping.look", missing_fields=["disk"]
        )
        return PlanResult.ask(asked)

    async def pressing(_turn: Any) -> PlanResult:
        return PlanResult.calls(press.call(button="red"))

    policy = RunPolicy(interrupts_allowed=True, approval=ApprovalPolicy())
    return [
        Agent("shop.approval", planner=approval, uses=[wiping], policy=policy),
        Agent("shop.question", planner=question, uses=[wiping], policy=ASKING),
        Agent("shop.remote_clerk", planner=pressing, uses=[remote]),
    ]


def _deciding(edit: str) -> Sequence[Agent]:
    prices = Toolset("shop.prices")

    class Price(BaseModel):
        amount: int

    class Cost(BaseModel):
        cost: int

    async def price(order_id: str) -> Any:
        """Look up a price."""
        return Cost(cost=3) if edit == "result_field_renamed" else Price(amount=3)

    price.__annotations__["return"] = Cost if edit == "result_field_renamed" else Price
    price_tool: Any = prices.tool(read_only=True)(price)

    refund_name = "refund_v2" if edit == "effect_repeated" else "refund"

    @prices.tool(name=refund_name)
    async def refund(amount: int) -> str:
        """Refund an amount."""
        return f"refunded {amount}"

    async def clerk(turn: Any) -> PlanResult:
        looked = turn.last(price_tool)
        if looked is None:
            return PlanResult.calls(price_tool.call(order_id="o-1"))
        if turn.last(refund) is None:
            return PlanResult.calls(refund.call(amount=3))
        return PlanResult.final("Refunded.")

    class Answer(BaseModel):
        text: str

    class Rated(BaseModel):
        text: str
        stars: int

    async def advise(_turn: Any) -> PlanResult:
        return PlanResult.final("It is fine.", result={"text": "It is fine."})

    advisor = Agent("shop.advisor", planner=advise)
    answer = Rated if edit == "answer_changed" else Answer
    advice = advisor.export("shop.advice", tools=[AgentTool("ask", args=Topic, result=answer)])

    async def parent(turn: Any) -> PlanResult:
        if turn.tool_results:
            return PlanResult.final("Advised.")
        return PlanResult.calls(ToolRequest(name="shop.advice.ask", payload={"topic": "t"}))

    outside = Toolset("shop.outside", external=True)
    outside.declare("weigh", args=dict[str, str], result=Price if edit == "external_result_changed" else int)

    async def outsider(turn: Any) -> PlanResult:
        if turn.tool_results:
            return PlanResult.final("Weighed.")
        return PlanResult.calls(ToolRequest(name="shop.outside.weigh", payload={"parcel": "p-1"}))

    return [
        Agent("shop.clerk", planner=clerk, uses=[prices]),
        advisor,
        Agent("shop.parent", planner=parent, uses=[advice]),
        Agent("shop.outside_clerk", planner=outsider, uses=[outside]),
    ]

"""An app whose runs do what the first word of their message names, for tests of commands."""

import asyncio
from datetime import timedelta

from pydantic import BaseModel

from sojourn import (
    Agent,
    AgentTool,
    App,
    ApprovalPolicy,
    ApprovalRule,
    AwaitClarification,
    PlanResult,
    RunPolicy,
    Toolset,
    Turn,
    WithArtifacts,
)

HOSTILE = "\x1b[31mred\x1b]0;title\x07 [bold]bold[/bold] [link=http://x]\u202e\r\nsojourn: all is well\x9b2J"
"""Text that a terminal may interpret: colours, title, markup, link, text direction, a new line, the 8-bit CSI."""


class Weigh(BaseModel):
    """What to weigh."""

    disk: str


class Order(BaseModel):
    """What to order."""

    disk: str
    count: int
    urgent: bool = False


class Question(BaseModel):
    """What to ask the asker."""

    text: str


tools = Toolset("desk.tools")


@tools.tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tools.tool(destructive=True, confirmation="Wipe disk {disk}?")
async def wipe(disk: str) -> str:
    """Destroy."""
    return f"wiped {disk}"


@tools.tool(destructive=True, confirmation="Store {name}?")
async def store(name: str, text: str, path: str) -> str:
    """Write a file."""
    return f"stored {path!r}"


@tools.tool
async def order(args: Order) -> str:
    """Order disks."""
    return f"{args.count} x {args.disk}{', now' if args.urgent else ''}"


@tools.tool
async def hang() -> str:
    """Run for ever."""
    await asyncio.Event().wait()
    return ""


@tools.tool
async def shout() -> str:
    """Say something hostile."""
    return HOSTILE


@tools.tool(artifacts={"curve": list[int]})
async def measure(count: int) -> WithArtifacts[str]:
    """Measure."""
    return WithArtifacts("measured", curve=list(range(count)))


outside = Toolset("desk.outside", external=True)
weigh = outside.declare("weigh", args=Weigh, result=float)


async def ask(turn: Turn) -> PlanResult:
    """Ask, then repeat the answer; or have a disk weighed."""
    if turn.messages[0].text == "Weigh.":
        results = [str(result.result) for result in turn.tool_results]
        return PlanResult.final(*results) if results else PlanResult.calls(weigh.call(Weigh(disk="a")))
    if turn.run.turn_id.endswith("1"):
        return PlanResult.ask(AwaitClarification(question="Below: which one?"))
    return PlanResult.final(turn.messages[-1].text)


asker = Agent("desk.asker", planner=ask, uses=[outside], policy=RunPolicy(interrupts_allowed=True))
asking = asker.export("desk.asking", tools=[AgentTool("ask", args=Question, user="{text}")])

CALLS = {
    "add": lambda: [add.call(a=1), add.call(a=1, b=2)],
    "break": lambda: [add.call(a=1)],
    "wipe": lambda: [wipe.call(disk="it's a")],
    "wipes": lambda: [wipe.call(disk="a"), wipe.call(disk="b")],
    "store": lambda: [store.call(name="a\u200bb", text="x" * 4_000, path="/srv/d\u0430ta\u202e")],
    "weigh": lambda: [weigh.call(Weigh(disk="a")), weigh.call(Weigh(disk="b"))],
    "hang": lambda: [hang.call()],
    "shout": lambda: [shout.call()],
    "measure": lambda: [measure.call(count=3)],
    "both": lambda: [wipe.call(disk="a"), asking.tools["ask"].call(Question(text="Weigh."))],
    "below": lambda: [asking.tools["ask"].call(Question(text="Which?"))],
}


SHIPPING = {
    "type": "object",
    "properties": {
        "to": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "floor": {"type": "integer"}},
        },
        "tags": {"type": "array", "items": {"type": "string"}},
    },
}


async def plan(turn: Turn) -> PlanResult | None:
    """Do what the first word of the first message names."""
    word = turn.messages[0].text.split()[0]
    if word == "fail":
        return None
    if word == "ask" and turn.run.turn_id == "t1":
        return PlanResult.ask(AwaitClarification(question=f"Which? {HOSTILE}"))
    if word == "order" and turn.run.turn_id == "t1":
        wanted = {"missing_fields": ["disk", "count", "urgent"], "restrict_to_tool": order.id}
        return PlanResult.ask(AwaitClarification(question="What to order?", **wanted))
    if word == "ship" and turn.run.turn_id == "t1":
        return PlanResult.ask(AwaitClarification(question="Where to?", form=SHIPPING))
    if word == "late" and turn.run.run_id.startswith("late-"):
        raise TypeError("the desk is not open yet")
    if word in {"sleep", "late"}:
        return PlanResult.wait(timedelta(days=1))
    if word in CALLS and not turn.tool_results:
        return PlanResult.calls(*CALLS[word]())
    if turn.tool_results and word == "break":
        return PlanResult.fail("not added")
    if turn.tool_results:
        return PlanResult.final(" ".join(str(result.result) for result in turn.tool_results))
    return PlanResult.final(turn.messages[-1].text)


policy = RunPolicy(interrupts_allowed=True)
clerk = Agent("desk.clerk", planner=plan, uses=[tools, outside, asking], policy=policy)
by_finance = ApprovalPolicy(rules=[ApprovalRule(tools=["*"], approvers=["finance"], four_eyes=True)])
treasurer = Agent(
    "desk.treasurer",
    planner=plan,
    uses=[tools, outside, asking],
    policy=RunPolicy(interrupts_allowed=True, approval=by_finance),
)
app = App(agents=[clerk, asker, treasurer])

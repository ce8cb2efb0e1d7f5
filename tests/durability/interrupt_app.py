"""An app to interrupt: the first word of a message says what its turn does, and every call records that it runs.

Conversations go on after 300 events.
"""

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from durable_app import of, record
from pydantic import BaseModel

import workflows.history_budget
from sojourn import (
    Agent,
    AgentTool,
    App,
    AwaitClarification,
    PlanResult,
    RunPolicy,
    ToolCallMeta,
    ToolRequest,
    Toolset,
    Turn,
)

workflows.history_budget.CONTINUE_EVENTS = 300

tools = Toolset("interrupt.tools")
outside = Toolset("interrupt.outside", external=True)


class Number(BaseModel):
    """A number."""

    n: int


outside.declare("pick", args=Number, result=int)


def pick() -> ToolRequest:
    """A call that somebody outside executes."""
    return ToolRequest(name="interrupt.outside.pick", payload={"n": 1})


def pace() -> float:
    """Seconds that a plan or a call takes, at random."""
    return random.uniform(0, 0.5)


@contextmanager
def effect(name: str, meta: ToolCallMeta) -> Iterator[None]:
    """Record that a call begins, and that it ends, whether it is cancelled or not."""
    record("start", name, at=time.time(), **of(meta))
    try:
        yield
    finally:
        record("end", name, at=time.time(), **of(meta))


@tools.tool
async def look(n: int, meta: ToolCallMeta) -> int:
    """Look."""
    with effect("look", meta):
        await asyncio.sleep(pace())
        return n


@tools.tool
def stamp(n: int, meta: ToolCallMeta) -> int:
    """Stamp, in a thread that nobody cancels."""
    with effect("stamp", meta):
        time.sleep(pace())
        return n


@tools.tool
async def slow(n: int, meta: ToolCallMeta) -> int:
    """Take a minute, unless it is cancelled."""
    with effect("slow", meta):
        await asyncio.sleep(60)
        return n


@tools.tool(local=True, idempotent=True)
async def near(n: int, meta: ToolCallMeta) -> int:
    """Look, as a local activity."""
    with effect("near", meta):
        await asyncio.sleep(pace())
        return n


@tools.tool(destructive=True)
async def wipe(n: int, meta: ToolCallMeta) -> int:
    """Destroy, once a person has approved it."""
    with effect("wipe", meta):
        await asyncio.sleep(pace())
        return n


def below() -> ToolRequest:
    """A call that is a child run."""
    return ToolRequest(name="interrupt.below.child", payload={"n": 1})


DOES: dict[str, Callable[[], list[ToolRequest]]] = {
    "look": lambda: [look.call(n=1), look.call(n=2)],
    "stamp": lambda: [stamp.call(n=1)],
    "slow": lambda: [slow.call(n=1)],
    "near": lambda: [near.call(n=1), near.call(n=2)],
    "wipe": lambda: [wipe.call(n=1)],
    "outside": lambda: [pick()],
    "child": lambda: [below()],
    "many": lambda: [
        look.call(n=1),
        stamp.call(n=2),
        near.call(n=3),
        wipe.call(n=4),
        pick(),
        slow.call(n=5),
        below(),
    ],
}
"""What the turn of a word calls in its first step; it then looks once more, and answers."""


async def plan(turn: Turn) -> PlanResult:
    """Do what the word says."""
    await asyncio.sleep(pace() / 2)
    (word, _), *_ = [m.text.split() for m in reversed(turn.messages) if m.role == "user" and " m" in m.text]
    last: Any = turn.messages[-1]
    if word in DOES and not turn.results:
        return PlanResult.calls(*DOES[word]())
    if word in DOES and len(turn.results) <= len(DOES[word]()):
        return PlanResult.calls(look.call(n=9))
    if word == "ask" and " m" in last.text:
        return PlanResult.ask(AwaitClarification(id="q", question="which?"))
    if word == "sleep" and " m" in last.text:
        return PlanResult.wait(timedelta(days=1))
    if word == "think":
        await asyncio.sleep(pace() * 3)
    return PlanResult.final(f"{word}: done")


async def plan_below(turn: Turn) -> PlanResult:
    """Look, take long, and answer."""
    steps = [look.call(n=1), stamp.call(n=2), slow.call(n=3)]
    return PlanResult.calls(steps[len(turn.results)]) if len(turn.results) < 3 else PlanResult.final("done")


POLICY = RunPolicy(interrupts_allowed=True, max_parallel_calls=4)
lower = Agent("interrupt.lower", planner=plan_below, uses=[tools], policy=POLICY)
asked = lower.export("interrupt.below", tools=[AgentTool("child", args=Number)])
app = App(agents=[Agent("interrupt.agent", planner=plan, uses=[tools, outside, asked], policy=POLICY), lower])

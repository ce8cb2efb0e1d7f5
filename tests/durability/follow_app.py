"""An app to follow: its runs have child runs, and child runs of these, and a part of them asks on the way.

Its runs go on in a new execution after 60 events.
"""

import asyncio
import random

from pydantic import BaseModel

import workflows.history_budget
from sojourn import Agent, AgentTool, App, AwaitClarification, PlanResult, RunPolicy, Toolset, Turn

workflows.history_budget.CONTINUE_EVENTS = 60

ASKS = RunPolicy(interrupts_allowed=True, max_tool_rounds=100)


class Task(BaseModel):
    """What a child run is to do."""

    text: str


tools = Toolset("follow.tools")
till = Toolset("follow.till")


@tools.tool(idempotent=True)
async def look(text: str) -> str:
    """Look something up, which takes a moment."""
    await asyncio.sleep(random.uniform(0.1, 0.6))
    return text.upper()


@till.tool(destructive=True, idempotent=True)
async def pay(text: str) -> str:
    """Pay, once a person has approved it."""
    return f"paid {text}"


LOOK = PlanResult.calls(look.call(text="a"), look.call(text="b"))
ASK = PlanResult.ask(AwaitClarification(question="Which one?"))
PAY = PlanResult.calls(pay.call(text="a"), look.call(text="b"))
DONE = PlanResult.final("done")


def step_of(turn: Turn, *steps: PlanResult) -> PlanResult:
    """The next of some steps; each ends with the planner's message."""
    return steps[sum(message.role == "assistant" for message in turn.messages)]


async def look_up(turn: Turn) -> PlanResult:
    """Look up twice."""
    return step_of(turn, LOOK, LOOK, DONE)


reader = Agent("follow.reader", planner=look_up, uses=[tools])
readers = reader.export("follow.readers", tools=[AgentTool("ask", args=Task, user="{text}")])
READ = PlanResult.calls(readers["ask"].call(Task(text="read")), look.call(text="a"))


async def help_out(turn: Turn) -> PlanResult:
    """Do what the message says: look, ask, or have somebody read."""
    return step_of(turn, {"look": LOOK, "ask": ASK, "read": READ}[turn.messages[0].text], DONE)


helper = Agent("follow.helper", planner=help_out, uses=[tools, readers], policy=ASKS)
helpers = helper.export("follow.helpers", tools=[AgentTool("ask", args=Task, user="{text}")])


def helped(*texts: str) -> PlanResult:
    """A step with a child run for each text."""
    return PlanResult.calls(*[helpers["ask"].call(Task(text=text)) for text in texts])


async def plan(turn: Turn) -> PlanResult:
    """Make the steps of the run's number, which is its message: every third run asks, pays, or has a child run that asks."""
    own, below = [(ASK, "look"), (PAY, "look"), (LOOK, "ask")][int(turn.messages[0].text) % 3]
    return step_of(turn, LOOK, helped("look", below), own, helped("read"), LOOK, helped("read", "look"), DONE)


app = App(
    agents=[Agent("follow.agent", planner=plan, uses=[tools, till, helpers], policy=ASKS), helper, reader]
)

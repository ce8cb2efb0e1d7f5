"""The app that is traced: an agent with every kind of call, its child agent, a slow agent, and one that asks people."""

import asyncio
import os
from pathlib import Path

from pydantic import BaseModel

from sojourn import (
    Agent,
    AgentTool,
    App,
    AwaitClarification,
    PlanResult,
    RateLimited,
    RunPolicy,
    ToolCallMeta,
    ToolRequest,
    Toolset,
    Turn,
    Usage,
)

SECRET = "hunter2-is-injected"
HOLD = Path(os.environ.get("TRACED_FOLDER", "."))

notes = Toolset("desk.notes")


@notes.tool(read_only=True, inject={"token": lambda meta: SECRET})
async def read(topic: str, token: str) -> str:
    """Read the notes on a topic."""
    return f"{topic} {len(token)}"


@notes.tool
async def write(topic: str, text: str) -> str:
    """Write a note."""
    return f"{topic}: {text}"


@notes.tool(inject={"token": lambda meta: SECRET})
async def fail(token: str, again: bool = False) -> str:
    """Raise an error that holds the injected value, the first time."""
    if again:
        return "done"
    raise ValueError(f"refused {token}")


@notes.tool
async def flaky(meta: ToolCallMeta) -> str:
    """Raise `RateLimited` at the first attempt."""
    if meta.attempt == 1:
        raise RateLimited("slowly", retry_after=0.01)
    return "done"


@notes.tool(local=True, read_only=True)
async def near(topic: str) -> str:
    """Return the topic, as a local activity."""
    return topic


@notes.tool(idempotent=True)
async def slow(meta: ToolCallMeta) -> str:
    """Create a file at the start, and wait until another file exists."""
    (HOLD / f"started-{meta.attempt}").touch()
    while not (HOLD / "go").exists():
        await asyncio.sleep(0.02)
    return "done"


@notes.tool(confirmation="Burn {topic}?")
async def burn(topic: str) -> str:
    """Burn the notes on a topic, when a person approves."""
    return topic


def steps(*plans: PlanResult):
    """Return a planner that returns one plan after the other, by the transcript alone."""

    async def plan(turn: Turn) -> PlanResult:
        made = sum(message.role == "assistant" for message in turn.messages)
        return plans[made].model_copy(update={"usage": Usage(input_tokens=10, output_tokens=3, model="m-1")})

    return plan


class Question(BaseModel):
    """A question for another agent."""

    question: str


depot = Toolset("desk.depot", external=True)
fetch = depot.declare("fetch", args=Question, result=str)

helper = Agent(
    "desk.helper",
    planner=steps(PlanResult.calls(read.call(topic="child")), PlanResult.final("hm")),
    uses=[notes],
)
help_ = helper.export("desk.help", tools=[AgentTool("ask", user="{question}", args=Question)])

clerk = Agent(
    "desk.clerk",
    planner=steps(
        PlanResult.calls(
            read.call(topic="a"),
            near.call(topic="b"),
            ToolRequest(name="desk.notes.made_up\n", payload={}),
            ToolRequest(name="desk.help.ask", payload={"question": "why?"}),
        ),
        PlanResult.calls(ToolRequest(name="desk.notes.write", payload={"topic": "a"}), fail.call()),
        PlanResult.calls(write.call(topic="a", text="b"), flaky.call(), fail.call(again=True)),
        PlanResult.final("done"),
    ),
    uses=[notes, help_],
)
slowly = Agent(
    "desk.slowly",
    planner=steps(
        PlanResult.calls(read.call(topic="a")), PlanResult.calls(slow.call()), PlanResult.final("done")
    ),
    uses=[notes],
)
asker = Agent(
    "desk.asker",
    planner=steps(
        PlanResult.ask(AwaitClarification(question="Which?")),
        PlanResult.calls(burn.call(topic="a")),
        PlanResult.calls(fetch.call(Question(question="where?"))),
        PlanResult.final("done"),
    ),
    uses=[notes, depot],
    policy=RunPolicy(interrupts_allowed=True),
)
lost = Agent("desk.lost", planner=steps())  # its first plan raises IndexError
app = App(agents=[clerk, helper, slowly, asker, lost], allow_loosening=True)

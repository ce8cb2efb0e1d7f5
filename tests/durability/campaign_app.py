"""The app of the campaign's workers: an errand with every kind of execution, each of which takes a moment."""

import asyncio
import random
import time

from durable_app import of, record

from sojourn import Agent, AgentTool, App, PlanResult, ToolCallMeta, Toolset, Turn

desk = Toolset("campaign.desk")


def pace() -> float:
    """Seconds that an execution takes, at random."""
    return random.uniform(0.05, 0.6)


async def go(point: str, meta: ToolCallMeta) -> str:
    """Execute a call: record its start, wait, and record its end."""
    record("start", point, at=time.time(), **of(meta))
    await asyncio.sleep(pace())
    record("end", point, at=time.time(), **of(meta))
    return point


@desk.tool
async def write(meta: ToolCallMeta) -> str:
    """Write."""
    return await go("write", meta)


@desk.tool
def stamp(meta: ToolCallMeta) -> str:
    """Stamp, in a thread."""
    record("start", "stamp", at=time.time(), **of(meta))
    time.sleep(pace())
    record("end", "stamp", at=time.time(), **of(meta))
    return "stamp"


@desk.tool(idempotent=False)
async def post(meta: ToolCallMeta) -> str:
    """Post, at most once."""
    return await go("post", meta)


@desk.tool(local=True, idempotent=True)
async def file(meta: ToolCallMeta) -> str:
    """File, in a local activity."""
    return await go("file", meta)


async def below(turn: Turn) -> PlanResult:
    """Call `write` once, then answer."""
    return PlanResult.final("written") if turn.tool_results else PlanResult.calls(write.call())


clerk = Agent("campaign.clerk", planner=below, uses=[desk])
clerks = clerk.export("campaign.clerks", tools=[AgentTool("ask", args=dict[str, str], user="Write")])


async def errand(turn: Turn) -> PlanResult:
    """Plan seven executions in four steps, whatever the results of the earlier ones."""
    await asyncio.sleep(pace() / 2)
    steps = [
        [write.call()],
        [stamp.call(), write.call(), file.call()],
        [post.call()],
        [clerks["ask"].call(topic="notes"), write.call()],
    ]
    done = sum(message.role == "assistant" for message in turn.messages)
    return PlanResult.calls(*steps[done]) if done < len(steps) else PlanResult.final("done")


app = App(agents=[Agent("campaign.errand", planner=errand, uses=[desk, clerks]), clerk])

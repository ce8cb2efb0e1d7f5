"""An app to steer: planners of several steps a turn, which record the messages that they really get.

`steer.walker` is planned by ordinary activities, `steer.near` by local ones. Conversations go on after 150 events.
"""

import asyncio
import random
import time
import zlib

from durable_app import record
from temporalio import activity

import workflows.history_budget
from sojourn import Agent, App, PlanResult, RunPolicy, Toolset, Turn

workflows.history_budget.CONTINUE_EVENTS = 150

tools = Toolset("steer.tools")


def pace() -> float:
    """Seconds that a plan or a call takes, at random."""
    return random.choice([0.0, random.uniform(0, 0.15)])


@tools.tool(idempotent=True)
async def step(n: int) -> int:
    """Go a step."""
    await asyncio.sleep(pace())
    return n


@tools.tool(idempotent=True, local=True)
async def hop(n: int) -> int:
    """Go a step, as a local activity."""
    await asyncio.sleep(pace() / 5)
    return n


async def plan(turn: Turn) -> PlanResult:
    """Go as many steps as the opening message's digest says, and answer with the messages of the turn."""
    info = activity.info()
    said = [message.text for message in turn.messages if message.role == "user"]
    record(
        "plan",
        turn.run.agent_id,
        run_id=turn.run.run_id,
        turn_id=turn.run.turn_id,
        execution=info.workflow_run_id,
        activity_id=info.activity_id,
        attempt=info.attempt,
        is_local=info.is_local,
        said=said,
        at=time.time(),
    )
    is_near = turn.run.agent_id == "steer.near"
    await asyncio.sleep(pace() / 5 if is_near else pace())
    mine = [message.text for message in turn.messages[turn.turn_start :] if message.role == "user"]
    if len(turn.results) < zlib.crc32(mine[0].encode()) % 5:
        return PlanResult.calls((hop if is_near else step).call(n=len(turn.results)))
    return PlanResult.final(",".join(mine))


POLICY = RunPolicy(max_tool_rounds=100)
walker = Agent("steer.walker", planner=plan, uses=[tools], policy=POLICY)
near = Agent("steer.near", planner=plan, uses=[tools], policy=POLICY, local=True)
app = App(agents=[walker, near])

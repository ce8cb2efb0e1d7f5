"""The time of child runs: it counts for their parents however they end, and is left to no later child."""

import asyncio
from datetime import timedelta

import pytest
from pydantic import BaseModel

from sojourn import Agent, AgentTool, App, PlanResult, RunPolicy, ToolRequest
from sojourn.testing.scripted import ScriptedPlanner

PACE = timedelta(seconds=0.4)
"""Least time of one plan of the lowest agent."""

BUDGET = RunPolicy(time_budget=timedelta(minutes=5), max_parallel_calls=1)


@pytest.fixture(autouse=True)
def _quick_beats(monkeypatch):
    """Send heartbeats soon: a cancellation reaches an activity only with a heartbeat, by default after 3 s."""
    monkeypatch.setattr("activities.heartbeat.FIRST_BEAT", 0.05)
    monkeypatch.setattr("activities.heartbeat.INTERVAL", 0.2)


class Question(BaseModel):
    text: str = "?"


def ask(toolset: str, *ids: str) -> PlanResult:
    return PlanResult.calls(*[ToolRequest(name=f"{toolset}.ask", tool_call_id=id) for id in ids])


@pytest.mark.parametrize("canceled", ["c1", "c1/c2"], ids=["the child", "the child's child"])
async def test_the_time_of_a_cancelled_child_counts_above(serve, until, canceled):
    """The time of a cancelled child, and of the run below it, counts for the root run (SR-53)."""
    thinking = []

    async def lowest(turn):
        await asyncio.sleep(PACE.total_seconds())
        if turn.messages[-1].role != "user":
            thinking.append(turn)
            await asyncio.Event().wait()
        return PlanResult.calls(ToolRequest(name="test.absent"))

    low = Agent("test.low", planner=lowest)
    asks_low = low.export("test.below", tools=[AgentTool("ask", args=Question)])
    middle = Agent(
        "test.middle",
        planner=ScriptedPlanner([ask("test.below", "c2"), PlanResult.final("done")]),
        uses=[asks_low],
    )
    asks_middle = middle.export("test.between", tools=[AgentTool("ask", args=Question)])
    top = Agent(
        "test.agent",
        planner=ScriptedPlanner([ask("test.between", "c1"), PlanResult.final("done")]),
        uses=[asks_middle],
        policy=BUDGET,
    )
    client = await serve(App(agents=[top, middle, low]))
    run = await client.start("test.agent", "go")
    await until(lambda: thinking)
    await client.get_run(f"{run.id}/{canceled}").cancel("enough")
    out = await run.result()
    assert out.reason == "answered"
    assert out.active_time >= 2 * PACE


async def test_a_child_gets_the_time_that_the_one_before_left(serve):
    """Where one call runs at a time, the time of the first child of a step is not left to the second."""
    left = []

    async def below(turn):
        left.append(turn.caps.time)
        await asyncio.sleep(PACE.total_seconds())
        return PlanResult.final("done")

    child = Agent("test.child", planner=below)
    asks = child.export("test.below", tools=[AgentTool("ask", args=Question)])
    script = ScriptedPlanner([ask("test.below", "c1", "c2"), PlanResult.final("done")])
    client = await serve(App(agents=[Agent("test.agent", planner=script, uses=[asks], policy=BUDGET), child]))
    out = await client.execute("test.agent", "go")
    first, second = left
    assert second <= first - PACE
    assert out.active_time >= 2 * PACE

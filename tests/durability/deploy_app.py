"""Two versions of one app: the second has renamed the tool, changed the policy and replaced the planner."""

import asyncio
from datetime import timedelta

from durable_app import is_held, record

from sojourn import (
    Agent,
    App,
    AwaitClarification,
    PlanInput,
    PlanResult,
    PlanResumeInput,
    RunPolicy,
    ToolCallMeta,
    Toolset,
    Turn,
)

PAUSE = timedelta(seconds=0.5)


async def executed(version: str, point: str, run_id: str, *, park: bool) -> None:
    """Record an execution's start and end; with `park`, wait between them while the point is held."""
    record("start", point, version=version, run_id=run_id)
    while park and is_held(point):
        await asyncio.sleep(0.02)
    record("end", point, version=version, run_id=run_id)


shelves_1 = Toolset("ops.shelves")


@shelves_1.tool
async def count(shelf: int, park: bool, meta: ToolCallMeta) -> int:
    """Count what lies on a shelf."""
    await executed("v1", "tool", meta.run_id, park=park)
    return shelf


async def plan_1(turn: Turn) -> PlanResult:
    """Count three shelves; the first message names where the run stops after the first."""
    step = sum(message.role == "assistant" for message in turn.messages)
    where = turn.messages[0].text
    await executed("v1", "plan", turn.run.run_id, park=where == "plan" and step == 1)
    if where == "wait" and step == 1 and is_held("wait"):
        return PlanResult.wait(PAUSE)
    if where == "question" and step == 1:
        return PlanResult.ask(AwaitClarification(id="go", question="Shall I go on?"))
    if step < 3:
        return PlanResult.calls(count.call(shelf=step + 1, park=where == "tool" and step == 1))
    return PlanResult.final("counted")


shelves_2 = Toolset("ops.shelves")


@shelves_2.tool(timeout=timedelta(seconds=30))
async def tally(shelf: int, meta: ToolCallMeta, unit: str = "piece") -> dict[str, int]:
    """Count what lies on a shelf, in units."""
    await executed("v2", "tool", meta.run_id, park=False)
    return {unit: shelf}


class Tallier:
    """The planner of version 2, which plans by the results, and asks no question."""

    async def plan_start(self, turn: PlanInput) -> PlanResult:
        """Tally the first shelf."""
        await executed("v2", "plan", turn.run.run_id, park=False)
        return self._next(turn)

    async def plan_resume(self, turn: PlanResumeInput) -> PlanResult:
        """Tally the next shelf, or answer."""
        await executed("v2", "plan", turn.run.run_id, park=False)
        return self._next(turn)

    @staticmethod
    def _next(turn: Turn) -> PlanResult:
        counted = sum(result.ok for message in turn.messages for result in message.tool_results)
        if counted < 3:
            return PlanResult.calls(tally.call(shelf=counted + 1))
        return PlanResult.final("tallied")


v1 = App(
    agents=[Agent("ops.counter", planner=plan_1, uses=[shelves_1], policy=RunPolicy(interrupts_allowed=True))]
)
v2 = App(
    agents=[
        Agent(
            "ops.counter",
            planner=Tallier(),
            uses=[shelves_2],
            policy=RunPolicy(max_parallel_calls=2, max_tool_rounds=7, tool_timeout=timedelta(seconds=9)),
        )
    ]
)

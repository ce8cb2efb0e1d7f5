"""Planner: an object of two methods, or one async function."""

import functools
from typing import Any

from sojourn import PlanInput, Planner, PlanResult, PlanResumeInput, RunContext
from sojourn.planner import as_planner

RUN = RunContext(run_id="r", agent_id="a.b")
START = PlanInput(run=RUN, messages=[], tools=[])
RESUME = PlanResumeInput(run=RUN, messages=[], tools=[])


class TwoMethods:
    async def plan_start(self, turn: PlanInput) -> PlanResult:
        return PlanResult.final("start")

    async def plan_resume(self, turn: PlanResumeInput) -> PlanResult:
        return PlanResult.final("resume")


class OneMethod:
    async def plan_start(self, turn: PlanInput) -> PlanResult:
        return PlanResult.final("start")


async def plan(turn: Any, prefix: str = "") -> PlanResult:
    return PlanResult.final(prefix + type(turn).__name__)


def not_async(turn: Any) -> PlanResult:
    return PlanResult.final("x")


def test_an_object_with_both_methods_is_a_planner() -> None:
    """An object with both methods is used as it is."""
    planner = TwoMethods()
    assert isinstance(planner, Planner)
    assert as_planner(planner, "agent a.b") is planner


async def test_one_async_function_plans_every_turn() -> None:
    """A function receives the first turn and the later ones, which differ by their type."""
    for function in (plan, functools.partial(plan, prefix="")):
        planner = as_planner(function, "agent a.b")
        assert (await planner.plan_start(START)).final_response.text == "PlanInput"
        assert (await planner.plan_resume(RESUME)).final_response.text == "PlanResumeInput"

"""What a type checker accepts as the planner of an agent, and what it refuses.

`make check` has mypy check this file: an ignored error that is none fails the check. When it runs as a test,
only the agents outside `TYPE_CHECKING` are made.
"""

from typing import TYPE_CHECKING

from sojourn import Agent, PlanInput, Planner, PlanResult, PlanResumeInput, Turn
from sojourn.repair import RepairingPlanner


async def of_a_turn(turn: Turn) -> PlanResult:
    return PlanResult.final(type(turn).__name__)


async def of_an_input(turn: PlanInput) -> PlanResult:
    return PlanResult.final(turn.run.run_id)


async def of_both(turn: PlanInput | PlanResumeInput) -> PlanResult:
    return PlanResult.final(turn.run.run_id)


class Both:
    async def plan_start(self, turn: PlanInput) -> PlanResult:
        return PlanResult.final("")

    async def plan_resume(self, turn: PlanResumeInput) -> PlanResult:
        return PlanResult.final("")


def sync(turn: Turn) -> str:
    return ""


def sync_plan(turn: Turn) -> PlanResult:
    return PlanResult.final("")


async def of_text(turn: Turn) -> str:
    return ""


async def of_later_turns(turn: PlanResumeInput) -> PlanResult:
    return PlanResult.final("")


async def of_nothing() -> PlanResult:
    return PlanResult.final("")


class Sync:
    def plan_start(self, turn: PlanInput) -> PlanResult:
        return PlanResult.final("")

    def plan_resume(self, turn: PlanResumeInput) -> PlanResult:
        return PlanResult.final("")


class Half:
    async def plan_start(self, turn: PlanInput) -> PlanResult:
        return PlanResult.final("")


def test_what_plans_is_accepted() -> None:
    """A type checker accepts each form of a planner, and refuses what cannot plan."""
    for planner in (of_a_turn, of_an_input, of_both):
        assert isinstance(Agent("ops.agent", planner=planner).planner, Planner)
    assert isinstance(Agent("ops.agent", planner=Both()).planner, Both)
    assert isinstance(Agent("ops.agent", planner=RepairingPlanner(of_a_turn)).planner, RepairingPlanner)
    if TYPE_CHECKING:
        Agent("ops.agent", planner=sync)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        Agent("ops.agent", planner=sync_plan)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        Agent("ops.agent", planner=of_text)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        Agent("ops.agent", planner=of_later_turns)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        Agent("ops.agent", planner=of_nothing)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        Agent("ops.agent", planner=Sync())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        Agent("ops.agent", planner=Half())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        Agent("ops.agent", planner=Both)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        Agent("ops.agent", planner="openai:gpt-5")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        Agent("ops.agent", planer=of_a_turn)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]

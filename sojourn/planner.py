"""Planner: the model or the code that decides what a run does next."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, runtime_checkable

from sojourn.contracts.plan import PlanInput, PlanResult, PlanResumeInput, Turn
from sojourn.errors import DefinitionError

__all__ = ["PlanFunction", "Planner", "as_planner"]

PlanFunction = Callable[[Turn], Awaitable[PlanResult]]
"""A planner as one async function; it gets a `PlanInput` first, and a `PlanResumeInput` for each later plan."""


@runtime_checkable
class Planner(Protocol):
    """Decides what a run does next.

    Both methods run in an activity, which Temporal may execute again on another machine. So they should use
    no state but `turn`, and have no side effects.
    """

    async def plan_start(self, turn: PlanInput) -> PlanResult:
        """Return the first plan of a run."""
        ...

    async def plan_resume(self, turn: PlanResumeInput) -> PlanResult:
        """Return the next plan, after a step, an answer or a wait."""
        ...


class _FunctionPlanner:
    def __init__(self, plan: PlanFunction) -> None:
        self._plan = plan

    async def plan_start(self, turn: PlanInput) -> PlanResult:
        return await self._plan(turn)

    async def plan_resume(self, turn: PlanResumeInput) -> PlanResult:
        return await self._plan(turn)


def as_planner(planner: Any, place: str) -> Planner:
    """Return a planner unchanged, and an async function as a planner.

    Args:
        planner: An object with both methods, or one async function.
        place: The place of the declaration, for the error.

    Raises:
        DefinitionError: `planner` is neither.
    """
    if isinstance(planner, Planner) and not isinstance(planner, type):
        return planner
    if inspect.iscoroutinefunction(planner):
        return _FunctionPlanner(planner)
    raise DefinitionError(
        f"{place}: a planner is an object with async plan_start and plan_resume, or one async function of the "
        f"turn; {planner!r} is neither"
    )

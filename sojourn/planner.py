"""Planner: who decides what a run does next, a model or code."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, runtime_checkable

from sojourn.contracts.plan import PlanInput, PlanResult, PlanResumeInput, Turn
from sojourn.errors import DefinitionError

__all__ = ["PlanFunction", "Planner", "as_planner"]

PlanFunction = Callable[[Turn], Awaitable[PlanResult]]
"""One function for every turn; a `PlanResumeInput` is a later one."""


@runtime_checkable
class Planner(Protocol):
    """Decides each turn of a run.

    Both methods run in an activity that Temporal may run again on another machine: what they
    know comes from the turn, and they have no effects of their own.
    """

    async def plan_start(self, turn: PlanInput) -> PlanResult:
        """Decide the first turn."""
        ...

    async def plan_resume(self, turn: PlanResumeInput) -> PlanResult:
        """Decide a later turn: a step was settled or a question answered."""
        ...


class _FunctionPlanner:
    def __init__(self, plan: PlanFunction) -> None:
        self._plan = plan

    async def plan_start(self, turn: PlanInput) -> PlanResult:
        return await self._plan(turn)

    async def plan_resume(self, turn: PlanResumeInput) -> PlanResult:
        return await self._plan(turn)


def as_planner(planner: Any, place: str) -> Planner:
    """A planner object as it is, or one around an async function of the turn.

    Raises:
        DefinitionError: it is neither.
    """
    if isinstance(planner, Planner) and not isinstance(planner, type):
        return planner
    if inspect.iscoroutinefunction(planner):
        return _FunctionPlanner(planner)
    raise DefinitionError(
        f"{place}: a planner is an object with async plan_start and plan_resume, or one async function of the "
        f"turn; {planner!r} is neither"
    )

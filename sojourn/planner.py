"""The model or the code that decides what a run does next."""

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, cast, runtime_checkable

from sojourn.contracts.plan import PlanInput, PlanResult, PlanResumeInput, Turn
from sojourn.errors import DefinitionError

__all__ = ["PlanFunction", "Planner", "as_planner"]

PlanFunction = Callable[[Turn], Awaitable[PlanResult]]


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
    """Return a planner unchanged, and an async function as a planner."""
    if fault := _fault(planner):
        raise DefinitionError(f"{place}: {fault}")
    return planner if isinstance(planner, Planner) else _FunctionPlanner(planner)


UNFINISHED = "why_no_planner"
"""An attribute of an incomplete planner, such as a decorator without its function: what to write."""

_METHODS = ("plan_start", "plan_resume")


def _fault(planner: Any) -> str | None:
    if isinstance(unfinished := getattr(planner, UNFINISHED, None), str):
        return unfinished
    if isinstance(planner, type):
        return f"the planner {planner.__name__} is a class; write {planner.__name__}(...)"
    if isinstance(planner, str):
        return f"the planner {planner[:80]!r} is a text; for a model write ModelPlanner(...) with its name"
    if isinstance(planner, Planner):
        return next((fault for name in _METHODS if (fault := _method_fault(planner, name))), None)
    if inspect.iscoroutinefunction(planner):
        return _turn_fault(planner)
    if inspect.isroutine(planner) or isinstance(planner, functools.partial):
        name = str(getattr(cast("object", planner), "__name__", "plan"))
        if not name.isidentifier():
            return (
                "the planner is a lambda, which is not async; write async def plan(turn: Turn) -> PlanResult"
            )
        return f"the planner {name!r} is not async; write async def {name}(turn: Turn) -> PlanResult"
    known = [name for name in _METHODS if hasattr(planner, name)]
    only = (
        f" has {known[0]}, but no {next(name for name in _METHODS if name not in known)}"
        if known
        else " is neither"
    )
    return (
        "a planner is an object with async plan_start and plan_resume, or one async function of the turn; "
        f"{type(planner).__name__}{only}"
    )


def _method_fault(planner: Planner, name: str) -> str | None:
    """Return why a method of a planner cannot plan, or None."""
    method = getattr(planner, name)
    if not inspect.ismethod(method) or inspect.iscoroutinefunction(method):
        return None
    returned = str(inspect.signature(method).return_annotation)
    if any(word in returned for word in ("Awaitable", "Coroutine", "Future", "Task")):
        return None
    return f"{name} of the planner {type(planner).__name__} is not async; write async def {name}(self, turn)"


def _turn_fault(plan: Callable[..., Any]) -> str | None:
    """Return why an async function cannot plan, or None."""
    try:
        inspect.signature(plan).bind(None)
    except TypeError:
        name = getattr(plan, "__name__", "plan")
        return f"the planner {name!r} takes one argument, the turn; write async def {name}(turn: Turn) -> PlanResult"
    return None

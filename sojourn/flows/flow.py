"""Flow: a function of a case, as a planner."""

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, overload

from sojourn.contracts.plan import Finalize, PlanInput, PlanResult, PlanResumeInput, Turn
from sojourn.core.repair.calls import Defaults
from sojourn.errors import CallFailed, DefinitionError
from sojourn.flows.case import Case, Leave
from sojourn.repair import MAX_REPAIRS, RepairingPlanner

__all__ = ["Flow", "FlowFunction", "flow"]

FlowFunction = Callable[[Case], str | PlanResult | Awaitable[str | PlanResult | None] | None]
"""A function of a case, sync or async; it returns the answer as text or as a `PlanResult`, or None if it said all."""


class Flow:
    """A planner made by `flow` from a function; `Agent(planner=...)` takes it."""

    def __init__(self, function: FlowFunction, *, defaults: Defaults | None, max_repairs: int) -> None:
        self.__doc__ = function.__doc__
        self._function = function
        self._name = getattr(function, "__name__", "flow")
        self._planner = RepairingPlanner(self._plan, defaults=defaults, max_repairs=max_repairs)

    async def plan_start(self, turn: PlanInput) -> PlanResult:
        """Return the first plan of a run."""
        return await self._planner.plan_start(turn)

    async def plan_resume(self, turn: PlanResumeInput) -> PlanResult:
        """Repair what the last step's failures allow; else run the function up to its next step."""
        return await self._planner.plan_resume(turn)

    async def _plan(self, turn: Turn) -> PlanResult:
        case = Case(turn)
        try:
            answer: Any = self._function(case)
            if inspect.isawaitable(answer):
                answer = await answer
            if turn.finalize is None:
                case.settle()
        except Leave:
            answer = None
        except CallFailed as failed:
            if case.leaving is None:
                case.fail(failed.result)
            answer = None
        if case.leaving is None:
            return self._answered(case, answer)
        return _stopped(case, turn.finalize) if turn.finalize else case.leaving

    def _answered(self, case: Case, answer: Any) -> PlanResult:
        if isinstance(answer, PlanResult):
            return answer
        if isinstance(answer, str) or (answer is None and case.said):
            text = "\n".join(filter(None, [case.said, answer]))
            return PlanResult.final(text, notes=case.notes)
        kind = type(answer).__name__
        return PlanResult.fail(f"the flow {self._name} returned {kind}; it returns a text or a PlanResult")


def _stopped(case: Case, why: Finalize) -> PlanResult:
    """The answer of a flow that has to stop before its end."""
    stopped = f"I had to stop here: {why.message}"
    return PlanResult.final(f"{case.said}\n{stopped}" if case.said else stopped, notes=case.notes)


@overload
def flow(function: FlowFunction, /) -> Flow: ...
@overload
def flow(
    *, defaults: Defaults | None = None, max_repairs: int = MAX_REPAIRS
) -> Callable[[FlowFunction], Flow]: ...
def flow(
    function: FlowFunction | None = None,
    /,
    *,
    defaults: Defaults | None = None,
    max_repairs: int = MAX_REPAIRS,
) -> Flow | Callable[[FlowFunction], Flow]:
    """Make a planner from a function that runs from top to bottom and whose steps are done once.

    The function runs again for each plan, so what it does between its steps must follow from the case alone: no
    clock, no random numbers, no side effects. A call that was refused is repaired by its hint, and a tool that is away
    is waited for, as by `RepairingPlanner`, before the function sees the failure.

    Args:
        function: A function of a `Case`, sync or async.
        defaults: Values of fields by tool id, for calls that lack them.
        max_repairs: Most calls in place of one failed call; 0 repairs nothing.

    Raises:
        DefinitionError: `function` is not a function.
    """
    if function is None:
        return functools.partial(flow_of, defaults=defaults, max_repairs=max_repairs)
    return flow_of(function, defaults=defaults, max_repairs=max_repairs)


def flow_of(function: FlowFunction, *, defaults: Defaults | None, max_repairs: int) -> Flow:
    """The planner of a function; see `flow`."""
    if not inspect.isroutine(function):
        raise DefinitionError(f"flow: {function!r} is no function; a flow is a function of a Case")
    return Flow(function, defaults=defaults, max_repairs=max_repairs)

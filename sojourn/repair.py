"""Auto-repair for planners: mend a call where that is safe, back off, ask a person, or leave it be (SR-136, SR-145).

`RepairingPlanner` puts itself before a planner; the functions it is made of can be used alone.
"""

from collections.abc import Mapping
from datetime import timedelta

from sojourn.contracts.plan import PlanInput, PlanResult, PlanResumeInput, Turn
from sojourn.core.repair.calls import Alternative, Defaults, Repairs
from sojourn.core.repair.payload import RepairedPayload, repair_payload
from sojourn.planner import PlanFunction, Planner, as_planner

__all__ = [
    "RepairedPayload",
    "RepairingPlanner",
    "clarification_for",
    "repair_calls",
    "repair_payload",
    "wait_or_substitute",
]

MAX_REPAIRS = 3
MAX_WAIT = timedelta(hours=1)


class RepairingPlanner:
    """Repairs the failed calls of another planner, which is told how they ended at last.

    Args:
        inner: A planner, or one async function of the turn.
        defaults: By tool: what a field is when a call lacks it and nobody said.
        alternatives: By tool: what to call in its place when it is over a limit, away or, where it only
            reads, too slow.
        max_repairs: Calls made in place of one call. The run's own limits end them too: three steps in a
            row that failed, three similar errors.
        max_wait: A longer `retry_after` is left to the inner planner.

    Raises:
        DefinitionError: the inner planner is none.
    """

    def __init__(
        self,
        inner: Planner | PlanFunction,
        *,
        defaults: Defaults | None = None,
        alternatives: Mapping[str, Alternative] | None = None,
        max_repairs: int = MAX_REPAIRS,
        max_wait: timedelta = MAX_WAIT,
    ) -> None:
        self.inner = as_planner(inner, "RepairingPlanner")
        self._defaults = defaults
        self._alternatives = alternatives
        self._max_repairs = max_repairs
        self._max_wait = max_wait

    async def plan_start(self, turn: PlanInput) -> PlanResult:
        """Plan as the inner planner does: nothing has failed yet."""
        return await self.inner.plan_start(turn)

    async def plan_resume(self, turn: PlanResumeInput) -> PlanResult:
        """Repair, back off or ask; else plan as the inner planner does."""
        repair = Repairs(turn, self._defaults, self._max_repairs)
        plan = repair.again() or repair.away(self._alternatives or {}, self._max_wait) or repair.ask()
        return plan or await self.inner.plan_resume(repair.told(turn))


def repair_calls(
    turn: Turn, *, defaults: Defaults | None = None, max_repairs: int = MAX_REPAIRS
) -> PlanResult | None:
    """The refused calls of the last step that can be mended safely, made again; None when there are none.

    What is safe is said at `mend`. A call that failed before is not made again, and a person's
    answer to the question of `asked` is used.
    """
    return Repairs(turn, defaults, max_repairs).again()


def wait_or_substitute(
    turn: Turn,
    *,
    alternatives: Mapping[str, Alternative] | None = None,
    max_repairs: int = MAX_REPAIRS,
    max_wait: timedelta = MAX_WAIT,
) -> PlanResult | None:
    """Another tool's call; else a durable wait for `retry_after`, and after it the same calls again.

    None where nothing of it would help or be safe: a call that timed out may have had its effect,
    and one made again has another idempotency key, so that only tools that just read are called
    again after a time-out.
    """
    return Repairs(turn, None, max_repairs).away(alternatives or {}, max_wait)


def clarification_for(
    turn: Turn, *, defaults: Defaults | None = None, max_repairs: int = MAX_REPAIRS
) -> PlanResult | None:
    """The question to a person about what a refused call lacks; None where nobody may be asked or could help.

    `repaired` uses the answer, when it is given the same defaults.
    """
    return Repairs(turn, defaults, max_repairs).ask()

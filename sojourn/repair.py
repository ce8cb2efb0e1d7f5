"""Repair refused calls, for planners (SR-136, SR-145).

A planner can repair a payload if that is safe, wait, substitute a tool, or ask a person.
`RepairingPlanner` wraps a planner; the functions that it calls can be used alone.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, cast

from sojourn.contracts.plan import PlanInput, PlanResult, PlanResumeInput, Turn
from sojourn.core.repair.calls import Alternative, Defaults, ReadAnswer, Repairs
from sojourn.core.repair.payload import RepairedPayload, repair_payload
from sojourn.errors import DefinitionError
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
    """Repairs the failed calls of an inner planner.

    The inner planner gets the last result of each call.

    Args:
        inner: A planner, or one async function of the turn.
        defaults: Values of fields by tool id, for calls that lack them; or a function of the turn that returns them.
        alternatives: The tool to call instead, by tool id, when a tool is rate-limited, unavailable or, if it is
            read-only, too slow.
        max_repairs: Most calls in place of one refused call. The run's limits hold too: three failed steps in a
            row, three similar errors.
        max_wait: The longest `retry_after` that the planner waits for; the inner planner gets a longer one.
        read_answer: Reads a person's answer to a question about missing fields: it takes the text and the names of the
            fields, and returns values by name, or None if the person declines. Without it only JSON, or the bare
            value of the one missing field, is understood.

    Raises:
        DefinitionError: `inner` is not a planner.
    """

    def __init__(
        self,
        inner: Planner | PlanFunction,
        *,
        defaults: Defaults | Callable[[Turn], Defaults] | None = None,
        alternatives: Mapping[str, Alternative] | None = None,
        max_repairs: int = MAX_REPAIRS,
        max_wait: timedelta = MAX_WAIT,
        read_answer: ReadAnswer | None = None,
    ) -> None:
        self.inner = as_planner(inner, "RepairingPlanner")
        check_repair_options("RepairingPlanner", defaults, max_repairs, max_wait, read_answer)
        _check_alternatives(alternatives)
        self._read_answer = read_answer
        self._defaults = defaults
        self._alternatives = alternatives
        self._max_repairs = max_repairs
        self._max_wait = max_wait

    @property
    def reads_descriptions(self) -> bool:
        """Whether the inner planner chooses tools by their descriptions, as a model does."""
        return bool(getattr(self.inner, "reads_descriptions", False))

    async def plan_start(self, turn: PlanInput) -> PlanResult:
        """Return the inner planner's plan, since no call has failed yet."""
        return await self.inner.plan_start(turn)

    async def plan_resume(self, turn: PlanResumeInput) -> PlanResult:
        """Repair, wait or ask, else return the inner planner's plan."""
        defaults = self._defaults(turn) if callable(self._defaults) else self._defaults
        repair = Repairs(turn, defaults, self._max_repairs, self._read_answer)
        plan = (
            repair.repeat_calls()
            or repair.use_alternatives(self._alternatives or {}, self._max_wait)
            or repair.ask()
        )
        return plan or await self.inner.plan_resume(repair.for_inner(turn))


def check_repair_options(
    place: str, defaults: Any, max_repairs: Any, max_wait: Any, read_answer: Any
) -> None:
    """Refuse a wrong option now, as it would fail a run at its first repair."""
    if not isinstance(max_repairs, int) or isinstance(max_repairs, bool) or max_repairs < 0:
        raise DefinitionError(f"{place}: max_repairs is a number from 0, not {max_repairs!r}")
    if not isinstance(max_wait, timedelta):
        raise DefinitionError(f"{place}: max_wait is a timedelta, not {max_wait!r}")
    if read_answer is not None and not callable(read_answer):
        raise DefinitionError(
            f"{place}: read_answer is a function of a text and the fields, not {read_answer!r}"
        )
    if defaults is None or callable(defaults):
        return
    if not isinstance(defaults, Mapping) or not all(
        isinstance(v, Mapping) for v in cast("Any", defaults).values()
    ):
        raise DefinitionError(
            f"{place}: defaults is a mapping of fields by tool id, such as {{find.id: {{'limit': 3}}}}, not {defaults!r}"
        )


def _check_alternatives(alternatives: Any) -> None:
    is_mapping = alternatives is None or isinstance(alternatives, Mapping)
    wrong = (
        [v for v in cast("Any", alternatives or {}).values() if not (isinstance(v, str) or callable(v))]
        if is_mapping
        else []
    )
    if not is_mapping or wrong:
        raise DefinitionError(
            "RepairingPlanner: alternatives maps a tool's id to another's id or to a function of the call, "
            f"not {alternatives!r}; write {{find.id: search.id}}"
        )


def repair_calls(
    turn: Turn, *, defaults: Defaults | None = None, max_repairs: int = MAX_REPAIRS
) -> PlanResult | None:
    """Return the refused calls of the last step, with repaired payloads, or None.

    They are the calls whose payloads `repair_payload` could repair. A call that has already failed
    is not made again, and no call that may have taken effect (`RetryHint.outcome_unknown`) is made
    with other arguments. A person's answer to the question of `clarification_for` is used.
    """
    return Repairs(turn, defaults, max_repairs).repeat_calls()


def wait_or_substitute(
    turn: Turn,
    *,
    alternatives: Mapping[str, Alternative] | None = None,
    max_repairs: int = MAX_REPAIRS,
    max_wait: timedelta = MAX_WAIT,
) -> PlanResult | None:
    """Return a call of another tool, else a durable wait for `retry_after`.

    After the wait, the same calls are returned again. None if neither helps or is safe. A call may
    have taken effect although it failed (`RetryHint.outcome_unknown`). Then no other tool is called
    in its place, and only a tool that is read-only or `idempotent=True` is called again, with the
    same idempotency key.
    """
    return Repairs(turn, None, max_repairs).use_alternatives(alternatives or {}, max_wait)


def clarification_for(
    turn: Turn, *, defaults: Defaults | None = None, max_repairs: int = MAX_REPAIRS
) -> PlanResult | None:
    """Return a question to a person about the missing fields of a refused call.

    None if the run may not ask a person or none could help, and for a call that may have taken effect without
    these fields (`RetryHint.outcome_unknown`). `repair_calls` uses the answer if it has the same
    defaults.
    """
    return Repairs(turn, defaults, max_repairs).ask()

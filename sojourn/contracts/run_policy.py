"""RunPolicy: the limits of a run."""

from datetime import timedelta
from typing import Annotated, Any

from pydantic import Field, NonNegativeInt, PositiveInt, SerializerFunctionWrapHandler, model_serializer

from sojourn.contracts.record import Input, Record

__all__ = ["Caps", "PositiveDuration", "RunPolicy", "RunPolicyOverride"]

PositiveDuration = Annotated[timedelta, Field(gt=timedelta(0))]
"""A time limit: Temporal refuses one that is not positive again and again, and the run would hang."""


class RunPolicy(Input):
    """The limits of a run; written in full, once, in the first plan's result."""

    max_tool_calls: NonNegativeInt | None = None
    """Calls in a run; None is no limit. A call over it is answered as not executed."""
    max_tool_rounds: PositiveInt = 20
    """Plans with calls in one user turn (ME-18 to ME-25)."""
    max_calls_per_step: PositiveInt = 64
    """Calls of one plan that are executed; the rest are answered as not executed."""
    max_parallel_calls: PositiveInt = 32
    """Calls in flight at once."""
    max_consecutive_failed_tool_calls: PositiveInt | None = 3
    """Steps in a row in which every call failed, until the planner gets its final turn; None is no limit."""
    plan_timeout: PositiveDuration = timedelta(minutes=10)
    """One planner turn."""
    tool_timeout: PositiveDuration = timedelta(minutes=2)
    """One attempt of a tool that declares no time-out of its own."""
    interrupts_allowed: bool = False
    """Whether the agent may stop and ask a person (SR-74, D-18)."""
    max_depth: PositiveInt = 5
    """Agents nested under agents."""

    @model_serializer(mode="wrap")
    def _in_full(self, _handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Every field, defaults too: a later default never changes a recorded policy."""
        return {name: getattr(self, name) for name in type(self).model_fields}

    def tightened(self, override: "RunPolicyOverride | None") -> "RunPolicy":
        """The stricter of this policy and the override, field by field."""
        if override is None:
            return self
        changes: dict[str, Any] = {}
        for name in type(override).model_fields:
            theirs, ours = getattr(override, name), getattr(self, name)
            if theirs is not None and (ours is None or theirs < ours):
                changes[name] = theirs
        return self.model_copy(update=changes) if changes else self


class RunPolicyOverride(Input):
    """One run's own limits; None inherits, and only a tighter one counts."""

    max_tool_calls: NonNegativeInt | None = None
    """Calls in the run."""
    max_tool_rounds: PositiveInt | None = None
    """Plans with calls in one user turn."""
    max_calls_per_step: PositiveInt | None = None
    """Calls of one plan that are executed."""
    max_parallel_calls: PositiveInt | None = None
    """Calls in flight at once."""
    max_consecutive_failed_tool_calls: PositiveInt | None = None
    """Steps in a row in which every call failed."""
    plan_timeout: PositiveDuration | None = None
    """One planner turn."""
    tool_timeout: PositiveDuration | None = None
    """One attempt of a tool that declares no time-out of its own."""
    interrupts_allowed: bool | None = None
    """False forbids the agent to ask a person; True allows nothing that its policy forbids."""
    max_depth: PositiveInt | None = None
    """Agents nested under agents."""


class Caps(Record):
    """What is left of a run's limits; None is no limit."""

    tool_calls: int | None = None
    """Calls left in the run."""
    rounds: int | None = None
    """Plans with calls left in this turn, the coming one included."""
    failed_steps: int | None = 3
    """Steps in a row that may still fail entirely."""

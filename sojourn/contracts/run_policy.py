"""RunPolicy: the limits of a run."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal

from pydantic import (
    ConfigDict,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from sojourn.contracts.approval import ApprovalPolicy, in_both
from sojourn.contracts.declaration import Declaration, PositiveDuration
from sojourn.contracts.record import Record
from sojourn.contracts.session_policy import SessionPolicy

__all__ = ["Caps", "Limits", "OnMissingFields", "RunPolicy", "RunPolicyOverride"]

OnMissingFields = Literal["resume", "await_clarification", "finalize"]
"""What follows a call without required fields: the planner decides, a person is asked, or the run ends."""


class Limits(Record):
    """The limits of a policy that concern one plan; recorded with each plan, so that a default here never changes."""

    max_calls_per_step: PositiveInt = 64
    """Calls of one plan that are executed; the rest are answered as `not_executed`."""
    plan_timeout: PositiveDuration = timedelta(minutes=10)
    """Time limit of one planner turn."""
    tool_timeout: PositiveDuration = timedelta(minutes=2)
    """Time limit of one attempt of a tool that declares no time-out of its own."""
    interrupts_allowed: bool = False
    """Whether the agent may ask a person (SR-74)."""
    on_missing_fields: str = "resume"
    """What follows a call without required fields."""
    approval: ApprovalPolicy = ApprovalPolicy()
    """Which calls a person is asked about before they run."""
    allowed_tools: list[str] | None = None
    """Only these tools are offered and run; a tool's id, or a toolset as `ops.devices.*`. None allows all."""
    allowed_tags: list[str] | None = None
    """Only tools with one of these tags are offered and run; None allows all."""
    denied_tools: list[str] = []
    """These tools are neither offered nor run."""
    denied_tags: list[str] = []
    """Tools with one of these tags are neither offered nor run."""
    max_depth: PositiveInt = 5
    """How deep agents may call agents."""
    finalizer_grace: PositiveDuration = timedelta(seconds=10)
    """Time for the final turn once the time budget is used up."""


class RunPolicy(Limits, Declaration):
    """The limits of a run, recorded in full once, in the first plan's result."""

    model_config = ConfigDict(extra="forbid")

    max_tool_calls: NonNegativeInt | None = None
    """Calls in a run and its child runs; None means no limit. A call over the limit is answered as `not_executed`."""
    max_tool_rounds: PositiveInt = 20
    """Plans with calls in one user turn (ME-18 to ME-25)."""
    max_parallel_calls: PositiveInt = 32
    """Calls in flight at once."""
    max_consecutive_failed_tool_calls: PositiveInt | None = 6
    """Consecutive steps in which every call failed before the planner gets its final turn; None means no limit."""
    similar_errors: PositiveInt | None = 3
    """Similar errors in a row before the planner gets its final turn (ME-4); so do twice as many of one class, without a success of any call between
    them. None means no limit."""
    time_budget: PositiveDuration | None = None
    """Active time of the run and its child runs: planning and executing count, waits and pauses do not.
    Calls in flight when the budget is used up are cancelled and answered; None means no limit."""
    max_tokens: NonNegativeInt | None = None
    """Tokens read and written by models, in the run and its child runs; None means no limit."""
    max_cost: NonNegativeFloat | None = None
    """US dollars spent on models, in the run and its child runs; None means no limit."""
    session: SessionPolicy | None = None
    """In a conversation: the limits of the whole, since all others count for each turn."""
    on_missing_fields: OnMissingFields = "resume"  # pyright: ignore[reportIncompatibleVariableOverride] - frozen
    """What follows a call without required fields."""

    @model_serializer(mode="wrap")
    def _in_full(self, _handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write every field, defaults too: a later default never changes a recorded policy."""
        return {name: getattr(self, name) for name in type(self).model_fields}

    def tightened(self, override: "RunPolicyOverride | None") -> "RunPolicy":
        """The stricter of this policy and the override, field by field."""
        if override is None:
            return self
        changes = {
            name: value
            for name, theirs in override.given().items()
            if (value := stricter(name, ours := getattr(self, name), theirs)) != ours
        }
        return self.model_copy(update=changes) if changes else self

    def overridden(self, override: "RunPolicyOverride | None") -> "RunPolicy":
        """This policy with the override's fields in place of its own, looser ones too."""
        return self.model_copy(update=override.given()) if override else self


class RunPolicyOverride(Declaration):
    """Limits of one run; None inherits, and a value applies only where it is tighter, unless the app allows looser ones."""

    max_tool_calls: NonNegativeInt | None = None
    """Calls in the run and its child runs."""
    max_tool_rounds: PositiveInt | None = None
    """Plans with calls in one user turn."""
    max_calls_per_step: PositiveInt | None = None
    """Calls of one plan that are executed."""
    max_parallel_calls: PositiveInt | None = None
    """Calls in flight at once."""
    max_consecutive_failed_tool_calls: PositiveInt | None = None
    """Consecutive steps in which every call failed."""
    similar_errors: PositiveInt | None = None
    """Similar errors in a row."""
    time_budget: PositiveDuration | None = None
    """Active time of the run and its child runs."""
    finalizer_grace: PositiveDuration | None = None
    """Time for the final turn once the time budget is used up."""
    plan_timeout: PositiveDuration | None = None
    """Time limit of one planner turn."""
    tool_timeout: PositiveDuration | None = None
    """Time limit of one attempt of a tool that declares no time-out of its own."""
    interrupts_allowed: bool | None = None
    """False forbids the agent, and its child runs, to ask a person; True has no effect where the policy forbids it."""
    on_missing_fields: OnMissingFields | None = None
    """What follows a call without required fields; `finalize` is the strictest."""
    approval: ApprovalPolicy | None = None
    """Which calls a person is asked about; the stricter of both rules applies."""
    allowed_tools: list[str] | None = None
    """Only these tools are offered and run, of those that the policy allows."""
    allowed_tags: list[str] | None = None
    """Only tools with one of these tags are offered and run, of those that the policy allows."""
    denied_tools: list[str] | None = None
    """These tools are neither offered nor run, nor are those that the policy denies."""
    denied_tags: list[str] | None = None
    """Tools with one of these tags are neither offered nor run."""
    max_depth: PositiveInt | None = None
    """How deep agents may call agents."""
    max_tokens: NonNegativeInt | None = None
    """Tokens read and written by models, in the run and its child runs."""
    max_cost: NonNegativeFloat | None = None
    """US dollars spent on models, in the run and its child runs."""
    session: SessionPolicy | None = None
    """In a conversation: the limits of the whole; the stricter of each counts."""

    def given(self) -> dict[str, Any]:
        """The fields that are set."""
        return {name: value for name in type(self).model_fields if (value := getattr(self, name)) is not None}

    def tightened(self, other: "RunPolicyOverride | None") -> "RunPolicyOverride":
        """The stricter of two overrides, field by field."""
        if other is None:
            return self
        changes = {
            name: stricter(name, getattr(self, name), theirs) for name, theirs in other.given().items()
        }
        return self.model_copy(update=changes)


_ON_MISSING: tuple[OnMissingFields, ...] = ("resume", "await_clarification", "finalize")

_STRICTER: dict[str, Callable[[Any, Any], Any]] = {
    "on_missing_fields": lambda ours, theirs: max(ours, theirs, key=_ON_MISSING.index),
    "approval": lambda ours, theirs: ours.tightened(theirs),
    "session": lambda ours, theirs: ours.tightened(theirs),
    "allowed_tools": in_both,
    "allowed_tags": lambda ours, theirs: [tag for tag in theirs if tag in ours],
    "denied_tools": lambda ours, theirs: list(dict.fromkeys([*ours, *theirs])),
    "denied_tags": lambda ours, theirs: list(dict.fromkeys([*ours, *theirs])),
}


def stricter(name: str, ours: Any, theirs: Any) -> Any:
    """The stricter of two values of a policy's field, where None means no limit."""
    if ours is None or theirs is None:
        return theirs if ours is None else ours
    return _STRICTER.get(name, min)(ours, theirs)


class Caps(Record):
    """What is left of a run's limits; None means no limit."""

    tool_calls: int | None = None
    """Calls left in the run and its child runs."""
    rounds: int | None = None
    """Plans with calls left in this turn, the coming plan included."""
    failed_steps: int | None = 3
    """Consecutive steps that may still fail entirely."""
    time: timedelta | None = None
    """Active time left."""
    tokens: int | None = None
    """Tokens left."""
    cost: float | None = None
    """US dollars left."""

"""StepProgress: how far a step is whose open calls all wait for people, for the next execution of a long run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sojourn.contracts.tool_result import ToolResult
from sojourn.core.awaits.clarification import Clarified
from sojourn.core.awaits.confirmation import Decided

__all__ = ["CallProgress", "Past", "StepProgress"]


@dataclass(frozen=True)
class Past:
    """What a call waited for, and has got: a decision, an answer or a worker's result; all None for a wait that expired."""

    decided: Decided | None = None
    clarified: Clarified | None = None
    result: ToolResult | None = None


@dataclass(frozen=True)
class CallProgress:
    """How far a call is."""

    since: datetime
    """When the call began."""
    result: ToolResult | None = None
    """The call's answer; None while it waits."""
    past: tuple[Past, ...] = ()
    """What a call that waits has got so far, in order."""


@dataclass(frozen=True)
class StepProgress:
    """How far a step is."""

    calls: Mapping[str, CallProgress] = field(default_factory=dict[str, CallProgress])
    """The admitted calls, by id."""
    opened: Mapping[str, datetime] = field(default_factory=dict[str, datetime])
    """When each open wait was opened, by id."""
    external: str = ""
    """The id of the wait for external results."""
    began: timedelta = timedelta(0)
    """The run's active time when the step began."""
    child_time: timedelta = timedelta(0)
    """The active time of the step's child runs, which have ended."""

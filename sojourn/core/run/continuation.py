"""The input of the next execution of a run: state, transcript, open step.

A long run continues as new, so that a worker never has to replay more than the last execution.
"""

import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from sojourn.contracts.dispatch import ForkedStep
from sojourn.contracts.tasks import PlanOutcome
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.awaits.clarification import Clarified
from sojourn.core.awaits.confirmation import Decided
from sojourn.core.run.inbox import BranchRequest
from sojourn.core.run.state import RunState
from sojourn.core.run.transcript import Packed, Segments
from sojourn.values.wire import size_of

__all__ = [
    "KEY",
    "CallProgress",
    "Continuation",
    "EarlierAttempts",
    "StepProgress",
    "read_continuation",
    "transcript_fault",
    "write_continuation",
]


@dataclass(frozen=True)
class EarlierAttempts:
    """The end of one wait of a call: a decision, an answer or a result.

    The result comes from a worker. All fields are None for a wait that expired.
    """

    decided: Decided | None = None
    clarified: Clarified | None = None
    result: ToolResult | None = None


@dataclass(frozen=True)
class CallProgress:
    since: datetime
    result: ToolResult | None = None
    past: tuple[EarlierAttempts, ...] = ()


@dataclass(frozen=True)
class StepProgress:
    calls: Mapping[str, CallProgress] = field(default_factory=dict[str, CallProgress])
    opened: Mapping[str, datetime] = field(default_factory=dict[str, datetime])
    """When each open wait was opened, by id."""
    external: str = ""
    began: timedelta = timedelta(0)
    """The run's active time when the step began."""
    child_time: timedelta = timedelta(0)
    """The active time of the step's child runs, which have ended."""


KEY = "continued"
"""The only field of the argument of an execution that continues another."""

MAX_BYTES = 1_500_000
"""Largest continuation on the wire, in bytes. The server refuses 2 MB a payload."""


@dataclass(frozen=True)
class Continuation:
    """A run when nothing is in flight.

    It is between a step and its next plan, or the planner or calls wait.
    """

    state: RunState
    transcript: Segments = ()
    """The messages that planners have received, compressed."""
    waits_for: PlanOutcome | None = None
    """The plan whose question, sleep or calls the run waits for; None between a step and a plan."""
    since: datetime | None = None
    """When that question or sleep began, or since when a conversation is idle."""
    step: StepProgress | None = None
    """How far those calls are."""
    forked: ForkedStep | None = None
    """In a fork: the step that the next plan judges in place of asking the planner."""
    branch: BranchRequest | None = None
    """In a conversation: the earlier point from which this execution goes on."""


_CONTINUATION: TypeAdapter[Continuation] = TypeAdapter(Continuation)


def write_continuation(continuation: Continuation) -> dict[str, Any] | None:
    """Return the argument of the next execution.

    None if the continuation is too large for one payload.
    """
    fields = _CONTINUATION.dump_python(continuation, mode="json", exclude_defaults=True)
    if size_of(fields) > MAX_BYTES or transcript_fault(continuation):
        return None
    return {KEY: fields}


def transcript_fault(continuation: Continuation) -> str | None:
    """Return why the transcript cannot be read, or None.

    A transcript that is too large once it is decompressed is refused, too.
    """
    fault = Packed.unpacked(continuation.transcript).fault()
    return fault and f"AgentRun takes one RunInput; {KEY}.transcript: {fault}"


def read_continuation(value: Any) -> Continuation | str | None:
    """Return a continuation, or why it is invalid.

    None for an argument of another kind.
    """
    if not isinstance(value, dict) or KEY not in value:
        return None
    try:
        read = _CONTINUATION.validate_python(cast("dict[str, Any]", value)[KEY])
        Packed.unpacked(read.transcript)
        return read
    except binascii.Error:
        return f"AgentRun takes one RunInput; {KEY}.transcript: not in Base64"
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or KEY
        return f"AgentRun takes one RunInput; {KEY}.{place}: {first['msg']}"
    except ValueError as error:
        return f"AgentRun takes one RunInput; {KEY}.transcript: {error}"

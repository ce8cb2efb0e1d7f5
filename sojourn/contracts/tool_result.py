"""ToolResult: the one shape in which every call is answered."""

from typing import Any

from sojourn.contracts.artifact import Artifact
from sojourn.contracts.bounds import Bounds
from sojourn.contracts.input_required import InputRequired
from sojourn.contracts.record import Record
from sojourn.contracts.retry_hint import RetryHint
from sojourn.contracts.run_link import RunLink
from sojourn.contracts.tool_error import ToolError

__all__ = ["ToolResult", "ToolTelemetry"]


class ToolTelemetry(Record):
    """What a call cost."""

    duration_ms: int = 0
    """Wall time of the attempt that answered; summed over a child run's calls for an agent tool."""
    attempts: int = 1
    """Executions until it answered."""
    input_tokens: int = 0
    """Tokens read by models."""
    output_tokens: int = 0
    """Tokens written by models."""
    model: str | None = None
    """The model, when there was one."""
    cost: float | None = None
    """In US dollars, when known."""
    extra: dict[str, Any] = {}
    """A tool's own figures."""


class ToolResult(Record):
    """What a call gave: a result, or an error with, where something can be done, a hint (SR-91, SR-130 to SR-132)."""

    name: str = ""
    """The tool's id as called; left out where the call stands beside the result."""
    tool_call_id: str = ""
    """The call that this answers."""
    result: Any = None
    """The tool's result as JSON; None on failure."""
    error: ToolError | None = None
    """What went wrong; None on success."""
    retry_hint: RetryHint | None = None
    """How to repair the call, when something can be done."""
    telemetry: ToolTelemetry | None = None
    """What the call cost."""
    children_count: int = 0
    """Tool calls made by the child run of an agent tool, its children's included."""
    run_link: RunLink | None = None
    """The child run of an agent tool."""
    bounds: Bounds | None = None
    """How the result was cut down, for bounded tools."""
    artifacts: list[Artifact] = []
    """What it returned beside the result; without the data wherever a model may read it."""
    input_required: InputRequired | None = None
    """From a worker to its run only: the call is not over, a person has to give input first."""

    @property
    def ok(self) -> bool:
        """Whether the call succeeded."""
        return self.error is None

"""ToolResult: the one shape of the answer to a call."""

from collections.abc import Iterator
from typing import Any

from sojourn.contracts.artifact import Artifact
from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.bounds import Bounds
from sojourn.contracts.input_required import InputRequired
from sojourn.contracts.record import Record
from sojourn.contracts.retry_hint import RetryHint
from sojourn.contracts.run_link import RunLink
from sojourn.contracts.tool_error import ToolError

__all__ = ["ToolResult", "ToolTelemetry"]


class ToolTelemetry(Record):
    """What a call cost: time and attempts, and the tokens and money of the models below it."""

    duration_ms: int = 0
    """Wall time of the attempt that answered; summed over a child run's calls for an agent tool."""
    attempts: int = 1
    """Attempts until the call was answered."""
    input_tokens: int = 0
    """Tokens read by models."""
    output_tokens: int = 0
    """Tokens written by models."""
    model: str | None = None
    """The model's name; None where no model was used."""
    cost: float | None = None
    """US dollars, when known."""
    extra: dict[str, Any] = {}
    """Figures of the tool's own."""


class ToolResult(Record):
    """The outcome of a call: a result, or an error with a hint where a repair is possible (SR-91, SR-130 to SR-132)."""

    name: str = ""
    """The tool's id as requested; left out where the call is recorded with the result."""
    tool_call_id: str = ""
    """The call that the result answers."""
    result: Any = None
    """The tool's result as JSON; None on failure."""
    remarks: list[str] = []
    """Texts beside the result, which models read after it: what an MCP server's tool says beside its structured content, and why a
    result does not fit its tool's own schema.
    """
    error: ToolError | None = None
    """The error; None on success."""
    retry_hint: RetryHint | None = None
    """How to repair the call, where a repair is possible."""
    telemetry: ToolTelemetry | None = None
    """What the call cost."""
    children_count: int = 0
    """Tool calls of an agent tool's child run and of the child runs below it."""
    run_link: RunLink | None = None
    """The child run of an agent tool."""
    bounds: Bounds | None = None
    """How the result was cut down, for bounded tools."""
    artifacts: list[Artifact] = []
    """The artifacts that the tool returned with its result; without their data wherever a model may read them."""
    memory: dict[str, Any] = {}
    """The change of the run's memory, a JSON Merge Patch; not in the transcript."""
    input_required: InputRequired | None = None
    """From a worker to its run only: the call is not over, a person has to give input first."""
    confirm: AwaitConfirmation | None = None
    """From a worker to its run only: the call did not run, since its tool is not the one that was shown; a person is asked again."""

    def __repr_args__(self) -> Iterator[tuple[str | None, object]]:
        """Whose result it is and how the call ended, without the result itself."""
        yield from (("name", self.name), ("tool_call_id", self.tool_call_id), ("ok", self.ok))
        if self.error:
            yield "code", self.error.code
        if self.artifacts:
            yield "artifacts", len(self.artifacts)

    @property
    def ok(self) -> bool:
        """Whether the call succeeded."""
        return self.error is None

"""The one shape of the answer to a tool call, with artifacts and bounds."""

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from pydantic_core import to_jsonable_python

from sojourn.contracts.attachment import AttachmentRecord
from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.record import Record
from sojourn.contracts.taint import Taint
from sojourn.contracts.tool_call import InputRequired
from sojourn.contracts.tool_error import RetryHint, ToolError

__all__ = ["Artifact", "Bounds", "MaskedEdit", "RunLink", "ToolResult", "ToolTelemetry", "WithArtifacts"]


class RunLink(Record):
    """A child run and the call that started it (SR-53; `run.Handle` there)."""

    run_id: str
    """The child run, which is also its workflow id."""
    agent_id: str
    """The child's agent."""
    parent_run_id: str
    """The parent run."""
    parent_tool_call_id: str
    """The parent run's call that started the child run."""


class Artifact(Record):
    """Data too rich for a model (SR-101 to SR-111), recorded once, in the completion of its call.

    Transcripts, plans and parent runs carry the artifact without `data`; `run.artifact(ref)` and events
    include the data.
    """

    kind: str
    """The declared kind, such as `time_series`; a user interface chooses its view by it."""
    source_tool: str = ""
    """The tool that made the artifact."""
    size: int = 0
    """Size of the data as JSON, in bytes."""
    ref: str = ""
    """`<run id>#<tool_call_id>/<kind>`, for `run.artifact(ref)`."""
    run_link: RunLink | None = None
    """The child run whose tool made the artifact."""
    media_type: str = ""
    """The media type of a picture or a file that models may see, such as `image/png`; empty for data for people only."""
    data: Any = None
    """The data as JSON, or None if the artifact is a reference."""
    claim: dict[str, str] | None = None
    """The reference into external storage, when the data was too large for the history."""
    attachment: AttachmentRecord | None = None
    """The file in external storage, of an artifact that is a file; it has no `data`."""


R = TypeVar("R")


class WithArtifacts(Generic[R]):
    """A result with artifacts, as a tool returns them (SR-101, SR-109).

    Args:
        result: The result, for the model.
        artifacts: Each declared artifact by its kind.
    """

    __slots__ = ("artifacts", "result")

    def __init__(self, result: R, /, **artifacts: Any) -> None:
        self.result = result
        self.artifacts = artifacts


class Bounds(Record):
    """How much of the full data a result holds, and how to get the rest (SR-23 to SR-27)."""

    returned: int
    """Number of items in this result."""
    total: int | None = None
    """Number of items in the full data, when the tool knows."""
    truncated: bool = False
    """Whether any cap was applied: paging, length, time window, depth or size."""
    refinement_hint: str | None = None
    """How to narrow the query."""
    next_cursor: str | None = None
    """The cursor of the next page, for tools that page."""
    note: str | None = None
    """The inconsistency of these numbers, which are the tool's own."""

    @classmethod
    def of(cls, value: Any) -> "Bounds":
        """Read the bounds from a bounded tool's result, typed or as JSON (SR-35).

        Raises:
            pydantic.ValidationError: The result states no bounds.
        """
        return cls.model_validate(to_jsonable_python(value, by_alias=True))


class ToolTelemetry(Record):
    """The cost of a call: time and attempts, and the tokens and money of the models below it."""

    duration_ms: int = 0
    """Wall time of the attempt that answered; summed over a child run's calls for an agent tool."""
    attempts: int = 1
    """Attempts until the call was answered."""
    input_tokens: int = 0
    """Tokens read by models."""
    output_tokens: int = 0
    """Tokens written by models."""
    model: str | None = None
    """The model's name, or None without a model."""
    cost: float | None = None
    """US dollars, when known."""
    extra: dict[str, Any] = {}
    """Figures of the tool's own."""


class MaskedEdit(Record):
    """An edit whose secret values are masked in a result. A later call may be recognized as a repetition by it."""

    digest: str
    """A digest of the arguments with which the call ran, equal for equal JSON."""
    idempotency_key: str
    """The key with which it ran."""


class ToolResult(Record):
    """The outcome of a call: a result, or an error with a hint if a repair is possible (SR-91, SR-130 to SR-132)."""

    name: str = ""
    """The tool's id as requested. Left out if the call is recorded with the result."""
    tool_call_id: str = ""
    """The call that the result answers."""
    result: Any = None
    """The tool's result as JSON; None on failure."""
    edited_arguments: dict[str, Any] | None = None
    """The arguments that an approver gave in place of those of the call, with secret values masked; None if they were not edited."""
    masked_edit: MaskedEdit | None = None
    """Identifies a repetition of the call if `edited_arguments` has masked values, else None."""
    remarks: list[str] = []
    """Texts beside the result, which models read after it: what an MCP server's tool says beside its structured content, and why a
    result does not fit its tool's own schema.
    """
    error: ToolError | None = None
    """The error; None on success."""
    retry_hint: RetryHint | None = None
    """How to repair the call, if a repair is possible."""
    telemetry: ToolTelemetry | None = None
    """The cost of the call."""
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
    taint: Taint | None = None
    """The text from outside in the result, beyond what the tool's declaration says: what a child run has read, or what the tool
    said of this result (`FromOutside`). It only ever adds.
    """
    input_required: InputRequired | None = None
    """From a worker to its run only: the call is not over, a person has to give input first."""
    confirm: AwaitConfirmation | None = None
    """Only from a worker to its run: the call did not run, because its tool differs from the displayed one. It needs a further approval."""

    def __repr_args__(self) -> Iterator[tuple[str | None, object]]:
        """Yield the call's ids and how the call ended, without the result itself."""
        yield from (("name", self.name), ("tool_call_id", self.tool_call_id), ("ok", self.ok))
        if self.error:
            yield "code", self.error.code
        if self.artifacts:
            yield "artifacts", len(self.artifacts)

    @property
    def ok(self) -> bool:
        """Whether the call succeeded."""
        return self.error is None

"""Artifact: data that a tool returned with its result, for interfaces and audits, never for the model."""

from typing import Any, Generic, TypeVar

from sojourn.contracts.record import Record
from sojourn.contracts.run_link import RunLink

__all__ = ["Artifact", "WithArtifacts"]


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
    """The media type of a picture that models may see, such as `image/png`; empty for data for people only."""
    data: Any = None
    """The data as JSON; None where the artifact is carried by reference."""
    claim: dict[str, str] | None = None
    """The reference into external storage, when the data was too large for the history."""


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

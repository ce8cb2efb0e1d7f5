"""Artifact: what a tool returned beside its result, for interfaces and audits, never for the model."""

from typing import Any, Generic, TypeVar

from sojourn.contracts.record import Record
from sojourn.contracts.run_link import RunLink

__all__ = ["Artifact", "WithArtifacts"]


class Artifact(Record):
    """Data too rich for a model (SR-101 to SR-111); recorded once, in the call's own completion.

    Transcripts, plans and parents carry it without `data`; `run.artifact(ref)` and events give it whole.
    """

    kind: str
    """Which declared artifact it is, such as `time_series`; interfaces choose their view by it."""
    source_tool: str = ""
    """The tool that made it."""
    size: int = 0
    """Bytes of the data as JSON."""
    ref: str = ""
    """`<run id>#<tool_call_id>/<kind>`, for `run.artifact(ref)`."""
    run_link: RunLink | None = None
    """The child run whose tool made it."""
    data: Any = None
    """The data as JSON; None where only the reference is carried."""
    claim: dict[str, str] | None = None
    """Where the data lies in external storage, when it was too large for the history."""


R = TypeVar("R")


class WithArtifacts(Generic[R]):
    """What a tool returns when it has more for interfaces than for the model (SR-101, SR-109).

    Args:
        result: The result, for the model.
        artifacts: Each declared artifact by its kind.
    """

    __slots__ = ("artifacts", "result")

    def __init__(self, result: R, /, **artifacts: Any) -> None:
        self.result = result
        self.artifacts = artifacts

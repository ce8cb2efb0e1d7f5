"""ArtifactKind: the name and the type of an artifact, for declaring, attaching and reading it."""

from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["ArtifactKind"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ArtifactKind(Generic[T]):
    """A kind of artifact that a tool may return, with its type for type checkers (SR-104, SR-108)."""

    name: str
    """The kind, such as `time_series`; a user interface chooses its view by it."""
    data: type[T]
    """The type of its data."""

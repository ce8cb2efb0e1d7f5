"""ArtifactKind: a kind of artifact with its type, under one name for declaring, giving and reading it."""

from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["ArtifactKind"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ArtifactKind(Generic[T]):
    """What a tool may return beside its result, so that type checkers know of it too (SR-104, SR-108)."""

    name: str
    """Such as `time_series`; interfaces choose their view by it."""
    data: type[T]
    """The type of its data."""

"""Give a planner the data of an artifact that the transcript names."""

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

__all__ = ["ArtifactReader", "current_artifact_reader", "reading_artifacts"]

ArtifactReader = Callable[[str], Awaitable[Any]]
"""Returns the data of the artifact with a reference, or None if it is unreadable now."""

_reader: ContextVar[ArtifactReader | None] = ContextVar("sojourn_artifact_reader", default=None)


@contextmanager
def reading_artifacts(reader: ArtifactReader) -> Generator[None]:
    token = _reader.set(reader)
    try:
        yield
    finally:
        _reader.reset(token)


def current_artifact_reader() -> ArtifactReader | None:
    """Return the reader of this planner, or None outside of a run."""
    return _reader.get()

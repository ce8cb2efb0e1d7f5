"""Give a planner the data of an artifact or attachment that the transcript names."""

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from sojourn.contracts.attachment import AttachmentRecord

__all__ = [
    "ArtifactReader",
    "AttachmentReader",
    "current_artifact_reader",
    "current_attachment_reader",
    "reading_artifacts",
]

ArtifactReader = Callable[[str], Awaitable[Any]]
"""Returns the data of the artifact with a reference, or None if it is unreadable now."""

AttachmentReader = Callable[[AttachmentRecord], Awaitable[bytes]]
"""Returns the content of an attachment, or raises `ArtifactNotFound`."""

_files: ContextVar[AttachmentReader | None] = ContextVar("sojourn_attachment_reader", default=None)

_reader: ContextVar[ArtifactReader | None] = ContextVar("sojourn_artifact_reader", default=None)


@contextmanager
def reading_artifacts(reader: ArtifactReader, files: AttachmentReader | None = None) -> Generator[None]:
    token, of_files = _reader.set(reader), _files.set(files)
    try:
        yield
    finally:
        _reader.reset(token)
        _files.reset(of_files)


def current_attachment_reader() -> AttachmentReader | None:
    """Return the reader of the messages' files, or None outside of a run."""
    return _files.get()


def current_artifact_reader() -> ArtifactReader | None:
    """Return the reader of this planner, or None outside of a run."""
    return _reader.get()

"""Ids that a replay makes again: a span that a workflow begins on one worker may end on another.

They are derived from what the span stands for, not drawn. So nothing of a span has to be kept in
the run, the run's own random numbers stay as they are, and whoever resumes it knows the ids that
children on other workers already call their parents.
"""

import hashlib
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from opentelemetry.sdk.trace.id_generator import IdGenerator

__all__ = ["DerivedIds", "derived", "span_id_of"]

_WANTED: ContextVar[tuple[int, int] | None] = ContextVar("sojourn_span_ids", default=None)


def span_id_of(*parts: str) -> int:
    """The id of the span that stands for this."""
    return _digest(8, *parts)


@contextmanager
def derived(*parts: str) -> Generator[None]:
    """The span begun meanwhile gets the id of these parts, and if it is a root, a trace id of the first."""
    token = _WANTED.set((_digest(16, parts[0]), span_id_of(*parts)))
    try:
        yield
    finally:
        _WANTED.reset(token)


class DerivedIds(IdGenerator):
    """Derived ids where they are wanted, else those of another generator."""

    def __init__(self, inner: IdGenerator) -> None:
        self._inner = inner

    def generate_trace_id(self) -> int:
        """A trace's id."""
        wanted = _WANTED.get()
        return wanted[0] if wanted else self._inner.generate_trace_id()

    def generate_span_id(self) -> int:
        """A span's id."""
        wanted = _WANTED.get()
        return wanted[1] if wanted else self._inner.generate_span_id()


def _digest(size: int, *parts: str) -> int:
    digest = hashlib.blake2b("\n".join(parts).encode(), digest_size=size).digest()
    return int.from_bytes(digest) or 1  # zero means no id

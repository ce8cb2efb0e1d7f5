"""The ids of spans, and the header that carries a trace's context.

A span that a workflow begins on one worker may end on another. So its id is not random, but derived from
the ids of the run and the call: a run stores no span, and another worker that resumes the run computes the
ids that child spans already have as their parent.

The header is the one that Temporal's SDKs use in all languages, whose functions for it are private. Unlike
theirs it holds only W3C Trace Context, no baggage: a header is written into the history.
"""

import hashlib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadConverter

__all__ = ["DerivedIds", "context_in", "derived", "span_id_of", "with_context"]

_HEADER = "_tracer-data"
_W3C = TraceContextTextMapPropagator()

_WANTED: ContextVar[tuple[int, int] | None] = ContextVar("sojourn_span_ids", default=None)


def span_id_of(*parts: str) -> int:
    return _digest(8, *parts)


@contextmanager
def derived(*parts: str) -> Generator[None]:
    """Give the span that the block begins the id derived from these parts.

    A root span gets the trace id derived from the first part.
    """
    token = _WANTED.set((_digest(16, parts[0]), span_id_of(*parts)))
    try:
        yield
    finally:
        _WANTED.reset(token)


class DerivedIds(IdGenerator):
    """Generates the derived ids inside `derived`, else the ids of another generator."""

    def __init__(self, inner: IdGenerator) -> None:
        self._inner = inner

    def generate_trace_id(self) -> int:
        wanted = _WANTED.get()
        return wanted[0] if wanted else self._inner.generate_trace_id()

    def generate_span_id(self) -> int:
        wanted = _WANTED.get()
        return wanted[1] if wanted else self._inner.generate_span_id()


def with_context(headers: Mapping[str, Payload], context: Context | None) -> Mapping[str, Payload]:
    """Return the headers with a context, by default the current one, if in a trace."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, context)
    return {**headers, _HEADER: PayloadConverter.default.to_payload(carrier)} if carrier else headers


def context_in(headers: Mapping[str, Payload]) -> Context:
    payload = headers.get(_HEADER)
    if payload is None:
        return Context()
    try:
        carrier: Any = PayloadConverter.default.from_payload(payload)
    except Exception:  # noqa: BLE001 - any program may start a run, and a wrong header must not fail it
        return Context()
    if not isinstance(carrier, dict):
        return Context()
    texts = {key: value for key, value in carrier.items() if isinstance(value, str)}  # pyright: ignore[reportUnknownVariableType]
    return _W3C.extract(texts, Context())  # pyright: ignore[reportUnknownArgumentType]


def _digest(size: int, *parts: str) -> int:
    digest = hashlib.blake2b("\n".join(parts).encode(), digest_size=size).digest()
    return int.from_bytes(digest) or 1  # zero means no id

"""The tracer and instruments of this process, and the ids of spans.

docs/observability.md lists the metrics of `METRICS`, and a test compares the two.

A span that a workflow begins on one worker may end on another. So its id is not random, but derived from
the ids of the run and the call: a run stores no span, and another worker that resumes the run computes the
ids that child spans already have as their parent.

The header is the one that Temporal's SDKs use in all languages, whose functions for it are private. Unlike
theirs it holds only W3C Trace Context, no baggage: a header is written into the history.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

from opentelemetry.context import Context
from opentelemetry.metrics import Counter, Histogram, Meter, MeterProvider, NoOpMeterProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import NoOpTracerProvider, Span, Status, StatusCode, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadConverter

import sojourn
from sojourn.telemetry.names import ERROR, Attributes

__all__ = [
    "METRICS",
    "DerivedIds",
    "Instruments",
    "TelemetryRecorder",
    "context_in",
    "derive_span_id",
    "fail",
    "span_id_of",
    "with_context",
]

METRICS: Final = {
    "sojourn.runs.started": ("{run}", "Runs begun"),
    "sojourn.runs.ended": ("{run}", "Runs that completed, failed or were canceled"),
    "gen_ai.invoke_agent.duration": ("s", "From a run's start to its end, waiting included"),
    "sojourn.plan.duration": ("s", "One turn of a planner"),
    "gen_ai.client.token.usage": ("{token}", "Tokens that a plan used of a model"),
    "sojourn.tool.calls": ("{call}", "Calls answered, each once"),
    "sojourn.tool.errors": ("{call}", "Calls answered with an error"),
    "sojourn.tool.repairs": (
        "{call}",
        "Calls that succeeded after one of the same tool had failed with a hint",
    ),
    "gen_ai.execute_tool.duration": ("s", "One execution of a tool by a worker"),
    "sojourn.awaits": ("{await}", "Waits that began"),
    "sojourn.await.duration": ("s", "How long a wait was open"),
}

_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 300, 3600)
_LONG = (1, 5, 10, 30, 60, 300, 900, 3_600, 14_400, 86_400, 604_800, 2_592_000)
_TOKENS = tuple(float(4**power) for power in range(14))

_SEEN = 20_000


@dataclass(frozen=True, slots=True)
class Instruments:
    runs_started: Counter
    runs_ended: Counter
    run_duration: Histogram
    plan_duration: Histogram
    tokens: Histogram
    calls: Counter
    errors: Counter
    repairs: Counter
    tool_duration: Histogram
    awaits: Counter
    await_duration: Histogram

    @classmethod
    def of(cls, meter: Meter) -> "Instruments":
        def counter(name: str) -> Counter:
            unit, description = METRICS[name]
            return meter.create_counter(name, unit, description)

        def histogram(name: str, boundaries: tuple[float, ...]) -> Histogram:
            unit, description = METRICS[name]
            return meter.create_histogram(
                name, unit, description, explicit_bucket_boundaries_advisory=boundaries
            )

        return cls(
            runs_started=counter("sojourn.runs.started"),
            runs_ended=counter("sojourn.runs.ended"),
            run_duration=histogram("gen_ai.invoke_agent.duration", _SECONDS),
            plan_duration=histogram("sojourn.plan.duration", _SECONDS),
            tokens=histogram("gen_ai.client.token.usage", _TOKENS),
            calls=counter("sojourn.tool.calls"),
            errors=counter("sojourn.tool.errors"),
            repairs=counter("sojourn.tool.repairs"),
            tool_duration=histogram("gen_ai.execute_tool.duration", _SECONDS),
            awaits=counter("sojourn.awaits"),
            await_duration=histogram("sojourn.await.duration", _LONG),
        )


class TelemetryRecorder:
    def __init__(self, tracers: TracerProvider | None, meters: MeterProvider | None) -> None:
        self._providers = [each for each in (tracers, meters) if each is not None]
        self.tracer = (tracers or NoOpTracerProvider()).get_tracer("sojourn", sojourn.__version__)
        self.instruments = Instruments.of(
            (meters or NoOpMeterProvider()).get_meter("sojourn", sojourn.__version__)
        )
        inner: Any = getattr(self.tracer, "id_generator", None)
        self.derives_ids = inner is not None
        """Whether spans get derived ids. Without an SDK tracer they do not, and a run has no span: each
        worker's would differ.
        """
        if inner is not None:
            self.tracer.id_generator = DerivedIds(inner)  # pyright: ignore[reportAttributeAccessIssue] - only Sojourn uses this tracer
        self._seen: OrderedDict[tuple[str, ...], None] = OrderedDict()
        self._lock = Lock()

    def span_of(self, name: str, context: Context, attributes: Attributes, start: int, *parts: str) -> Span:
        """Begin a span with the id derived from `parts`, at nanoseconds since the epoch."""
        with derive_span_id(*parts):
            return self.tracer.start_span(name, context, attributes=attributes, start_time=start)

    def is_first(self, *parts: str) -> bool:
        """Return whether these parts are new in this process, among the last 20,000.

        A workflow may report the same thing twice outside a replay: when the server refuses the result of a
        workflow task, because a signal arrived meanwhile, the task is executed again.
        """
        with self._lock:
            if parts in self._seen:
                return False
            self._seen[parts] = None
            if len(self._seen) > _SEEN:
                self._seen.popitem(last=False)
            return True

    def flush(self) -> None:
        for provider in self._providers:
            force_flush: Any = getattr(provider, "force_flush", None)
            if force_flush:
                force_flush()


def fail(span: Span, error_type: str) -> None:
    """Mark a span as failed, without the message, which could hold a payload."""
    span.set_attribute(ERROR, error_type)
    span.set_status(Status(StatusCode.ERROR))


_HEADER = "_tracer-data"
_W3C = TraceContextTextMapPropagator()

_WANTED: ContextVar[tuple[int, int] | None] = ContextVar("sojourn_span_ids", default=None)


def span_id_of(*parts: str) -> int:
    return _digest(8, *parts)


@contextmanager
def derive_span_id(*parts: str) -> Generator[None]:
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

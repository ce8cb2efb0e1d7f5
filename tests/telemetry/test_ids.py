"""Derived ids: a span has the same id on every worker, and different spans have different ids."""

from itertools import pairwise

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import get_current_span

from sojourn.telemetry.recorder import TelemetryRecorder, derive_span_id, span_id_of


def test_ids_are_derived_from_run_and_call():
    """Different runs and calls have different ids, none of which is zero."""
    ids = [
        span_id_of("run"),
        span_id_of("run", "call"),
        span_id_of("run", "call2"),
        span_id_of("run2", "call"),
    ]
    assert len(set(ids)) == 4
    assert all(0 < id < 2**64 for id in ids)


def test_only_spans_of_runs_are_derived():
    """Outside `derived`, and with another tracer of the program, span and trace ids are random."""
    provider = TracerProvider()
    recorder = TelemetryRecorder(provider, None)
    with derive_span_id("run"):
        first, second = (recorder.tracer.start_span("a") for _ in range(2))
    assert first.get_span_context().span_id == second.get_span_context().span_id == span_id_of("run")
    assert first.get_span_context().trace_id == second.get_span_context().trace_id
    own = [recorder.tracer.start_span("a").get_span_context() for _ in range(3)]
    others = [provider.get_tracer("other").start_span("a").get_span_context() for _ in range(3)]
    for span, other in pairwise([*own, *others]):
        assert span.span_id != other.span_id
        assert span.trace_id != other.trace_id
    assert not get_current_span().get_span_context().is_valid


def test_a_repeated_report_is_not_new():
    """A report of a workflow task that is executed again is not counted twice, but those of other runs and calls are."""
    recorder = TelemetryRecorder(None, None)
    assert recorder.is_first("run", "start")
    assert not recorder.is_first("run", "start")
    assert recorder.is_first("run2", "start")
    assert recorder.is_first("run", "call", "1")


def test_only_a_tracer_of_the_sdk_derives_ids():
    """Ids are derived only with a tracer of the SDK."""
    assert not TelemetryRecorder(None, None).derives_ids
    assert TelemetryRecorder(TracerProvider(), None).derives_ids

"""Derived ids: the same span has the same id wherever it is ended, and no other has."""

from itertools import pairwise

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import get_current_span

from sojourn.telemetry.recorder import Recorder
from sojourn.telemetry.trace_context import derived, span_id_of


def test_ids_follow_from_what_a_span_stands_for():
    """Another process makes the same; others differ; none is zero."""
    ids = [
        span_id_of("run"),
        span_id_of("run", "call"),
        span_id_of("run", "call2"),
        span_id_of("run2", "call"),
    ]
    assert len(set(ids)) == 4
    assert all(0 < one < 2**64 for one in ids)


def test_only_spans_of_runs_are_derived():
    """The program's other spans are drawn as before, and so are its trace ids."""
    provider = TracerProvider()
    recorder = Recorder(provider, None)
    with derived("run"):
        first, second = (recorder.tracer.start_span("a") for _ in range(2))
    assert first.get_span_context().span_id == second.get_span_context().span_id == span_id_of("run")
    assert first.get_span_context().trace_id == second.get_span_context().trace_id
    drawn = [recorder.tracer.start_span("a").get_span_context() for _ in range(3)]
    others = [provider.get_tracer("other").start_span("a").get_span_context() for _ in range(3)]
    for one, other in pairwise([*drawn, *others]):
        assert one.span_id != other.span_id
        assert one.trace_id != other.trace_id
    assert not get_current_span().get_span_context().is_valid


def test_what_is_told_again_is_not_new():
    """A task that the server refuses is done anew, and must not count twice; runs do not disturb each other."""
    recorder = Recorder(None, None)
    assert recorder.is_first("run", "start")
    assert not recorder.is_first("run", "start")
    assert recorder.is_first("run2", "start")
    assert recorder.is_first("run", "call", "1")


def test_a_tracer_that_is_not_the_sdks_derives_nothing():
    """Then no run's span is begun, since a replay would begin another one."""
    assert not Recorder(None, None).derives_ids
    assert Recorder(TracerProvider(), None).derives_ids

"""Recorder: the tracer and the instruments of this process."""

from collections import OrderedDict
from threading import Lock
from typing import Any

from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider, NoOpMeterProvider
from opentelemetry.trace import NoOpTracerProvider, Span, Status, StatusCode, TracerProvider

import sojourn
from sojourn.telemetry.ids import DerivedIds, derived
from sojourn.telemetry.instruments import Instruments
from sojourn.telemetry.names import ERROR, Attributes

__all__ = ["Recorder", "fail"]

_SEEN = 20_000


class Recorder:
    """Begins spans, and holds the instruments.

    Args:
        tracers: Where spans go; None for nowhere.
        meters: Where metrics go; None for nowhere.
    """

    def __init__(self, tracers: TracerProvider | None, meters: MeterProvider | None) -> None:
        self._providers = [one for one in (tracers, meters) if one is not None]
        self.tracer = (tracers or NoOpTracerProvider()).get_tracer("sojourn", sojourn.__version__)
        self.instruments = Instruments.of(
            (meters or NoOpMeterProvider()).get_meter("sojourn", sojourn.__version__)
        )
        inner: Any = getattr(self.tracer, "id_generator", None)
        self.derives_ids = inner is not None
        """Whether spans of runs can be made: with a tracer that is not the SDK's, a replay would make others."""
        if inner is not None:
            self.tracer.id_generator = DerivedIds(inner)  # pyright: ignore[reportAttributeAccessIssue] - this tracer is ours alone
        self._seen: OrderedDict[tuple[str, ...], None] = OrderedDict()
        self._lock = Lock()

    def span_of(self, name: str, context: Context, attributes: Attributes, start: int, *parts: str) -> Span:
        """A span whose id follows from what it stands for, begun at a time in nanoseconds."""
        with derived(*parts):
            return self.tracer.start_span(name, context, attributes=attributes, start_time=start)

    def is_first(self, *parts: str) -> bool:
        """Whether this is met for the first time in this process.

        What a workflow tells while it is not replaying it may tell again: when the server refuses the very
        task, since a signal came in meanwhile, that task is done anew.
        """
        with self._lock:
            if parts in self._seen:
                return False
            self._seen[parts] = None
            if len(self._seen) > _SEEN:
                self._seen.popitem(last=False)
            return True

    def flush(self) -> None:
        """Send all that is waiting to be sent."""
        for provider in self._providers:
            force_flush: Any = getattr(provider, "force_flush", None)
            if force_flush:
                force_flush()


def fail(span: Span, error_type: str) -> None:
    """Mark a span as failed; no message, which could hold what was put into a call."""
    span.set_attribute(ERROR, error_type)
    span.set_status(Status(StatusCode.ERROR))

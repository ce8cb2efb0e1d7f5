"""Telemetry: traces and metrics by OpenTelemetry, off unless somebody asks for them.

The package decides which spans and metrics a run has, and with which ids, by the conventions for generative AI. It knows
the contracts, Temporal's interceptors and OpenTelemetry, which it loads only once somebody asks: by the standard
environment variables, or by a tracer or meter provider that the program has set. Begin at `interceptor`, which Temporal
calls; `observation` records a run.

`temporalio.contrib.opentelemetry` is not used, part by part for one reason each:

- `OpenTelemetryPlugin` and `OpenTelemetryInterceptor` need a `ReplaySafeTracerProvider` as the global provider and refuse
  a program's own; both are marked experimental.
- Their spans, and those of `TracingInterceptor`, hold the text of exceptions, which may quote a payload or a secret.
- `OpenTelemetryInterceptor` names spans for Temporal's operations (`RunWorkflow:AgentRun`), not for those of an agent, and
  `TracingInterceptor` gives a workflow spans without a length: `interceptor`, `activities` and `observation` do neither.
- `TemporalIdGenerator` draws ids from a random generator of the workflow, so that they depend on the order in which spans
  begin; `trace_context` derives them, so that another worker, and a child run, knows them.
- The functions for their header are private, and write baggage into the history; the header itself is theirs.
- `MetricsExporter` exports the metrics of Temporal's core, which a worker serves to Prometheus already.
"""

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sojourn.telemetry import requested

if TYPE_CHECKING:
    from sojourn.telemetry.interceptor import TelemetryInterceptor
    from sojourn.telemetry.recorder import Recorder

__all__ = ["flush", "interceptors", "missing_interceptors"]

FLUSH = 3.0
"""Seconds that a process which ends gives its last spans and metrics."""


class _Process:
    """What this process records with, once that is asked for."""

    recorder: "Recorder | None" = None
    lock = threading.Lock()


def interceptors() -> "Sequence[TelemetryInterceptor]":
    """What a Temporal client of your own is given: `Client.connect(..., interceptors=interceptors())`.

    Empty while nobody asks for telemetry. A `sojourn.Client` and the `sojourn` command have them already.
    """
    recorder = _recorder()
    if recorder is None:
        return ()
    from sojourn.telemetry.interceptor import TelemetryInterceptor  # noqa: PLC0415 - it loads OpenTelemetry

    return (TelemetryInterceptor(recorder),)


def missing_interceptors(present: Sequence[object]) -> "Sequence[TelemetryInterceptor]":
    """The same for a worker, unless its client brings them."""
    made = interceptors()
    return () if any(isinstance(one, type(new)) for one in present for new in made) else made


def flush(seconds: float = FLUSH) -> None:
    """Send what is left, for at most so long; for a process that is about to end."""
    recorder = _Process.recorder
    if recorder is None:
        return
    sending = threading.Thread(target=recorder.flush, daemon=True)
    sending.start()
    sending.join(seconds)


def _recorder() -> "Recorder | None":
    with _Process.lock:
        if _Process.recorder is None and requested.anything():
            from sojourn.telemetry import providers  # noqa: PLC0415 - it loads OpenTelemetry

            _Process.recorder = providers.recorder()
        return _Process.recorder

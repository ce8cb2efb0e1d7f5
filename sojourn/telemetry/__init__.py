"""Traces and metrics by OpenTelemetry, off unless requested.

The package decides which spans and metrics a run has, and with which ids, by the conventions for
generative AI. It imports the contracts, Temporal's interceptors and OpenTelemetry, which is loaded
only when telemetry is requested: by the standard environment variables, or by a tracer or meter
provider that the program has set. Begin at `interceptor`, which Temporal calls; `observation`
records a run.

`temporalio.contrib.opentelemetry` is not used, for one reason each:

- `OpenTelemetryPlugin` and `OpenTelemetryInterceptor` need a `ReplaySafeTracerProvider` as the global provider and refuse
  a program's own; both are marked experimental.
- Their spans, and those of `TracingInterceptor`, hold the text of exceptions, which may quote a payload or a secret.
- `OpenTelemetryInterceptor` names spans for Temporal's operations (`RunWorkflow:AgentRun`), not for those of an agent, and
  `TracingInterceptor` gives a workflow spans without a duration: `interceptor` and `observation` do neither.
- `TemporalIdGenerator` draws ids from a random generator of the workflow, so that they depend on the order in which spans
  begin; `recorder` derives them, so that another worker, and a child run, can compute them.
- The functions for their header are private, and write baggage into the history; the header itself is theirs.
- `MetricsExporter` exports the metrics of Temporal's core, which a worker serves to Prometheus already.
"""

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sojourn.telemetry import requested

if TYPE_CHECKING:
    from sojourn.telemetry.interceptor import TelemetryInterceptor
    from sojourn.telemetry.recorder import TelemetryRecorder

__all__ = ["flush", "interceptors", "leave_out", "missing_interceptors"]

_FLUSH = 3.0  # seconds that the end of a process may take


class _Process:
    recorder: "TelemetryRecorder | None" = None
    is_left_out = False
    lock = threading.Lock()


def interceptors() -> "Sequence[TelemetryInterceptor]":
    """Return the interceptors for your own Temporal client, if telemetry is requested.

    Use them as `Client.connect(..., interceptors=interceptors())`. A `sojourn.Client` and the `sojourn`
    command have them already.
    """
    recorder = _recorder()
    if recorder is None:
        return ()
    from sojourn.telemetry.interceptor import TelemetryInterceptor  # noqa: PLC0415 - it loads OpenTelemetry

    return (TelemetryInterceptor(recorder),)


def missing_interceptors(present: Sequence[object]) -> "Sequence[TelemetryInterceptor]":
    """Return the interceptors for a worker, unless its client has them."""
    made = interceptors()
    return () if any(isinstance(each, type(new)) for each in present for new in made) else made


def flush() -> None:
    """Send the remaining spans and metrics, before the process ends."""
    recorder = _Process.recorder
    if recorder is None:
        return
    sending = threading.Thread(target=recorder.flush, daemon=True)
    sending.start()
    sending.join(_FLUSH)


def leave_out() -> None:
    """Record nothing in this process, such as a command that starts no run."""
    _Process.is_left_out = True


def _recorder() -> "TelemetryRecorder | None":
    with _Process.lock:
        if _Process.recorder is None and not _Process.is_left_out and requested.is_requested():
            from sojourn.telemetry import providers  # noqa: PLC0415 - it loads OpenTelemetry

            _Process.recorder = providers.recorder()
        return _Process.recorder

"""Telemetry: traces and metrics by OpenTelemetry, off unless somebody asks for them.

They are asked for by OpenTelemetry's standard environment variables, or by a program that has set
a global tracer or meter provider of its own. Nothing of OpenTelemetry is loaded before that is known.
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

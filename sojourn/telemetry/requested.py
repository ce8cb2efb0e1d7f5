"""Find out whether telemetry is requested.

A provider that the program has set requests it, and so do the standard variables:
https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/. When nothing is set, the
standard sends to `localhost`, but Sojourn sends nothing.
"""

import os
import sys
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

__all__ = ["Signal", "exporters", "is_disabled", "is_requested", "own_meters", "own_tracers", "protocol"]

Signal = Literal["traces", "metrics"]


def is_disabled() -> bool:
    return os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def exporters(signal: Signal) -> list[str]:
    """Return the names of a signal's exporters, such as `otlp` or `console`."""
    if is_disabled():
        return []
    named = os.environ.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip()
    if named:
        return [name for each in named.split(",") if (name := each.strip()) not in ("", "none")]
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT")
    return ["otlp"] if any(os.environ.get(name, "").strip() for name in endpoints) else []


def protocol(signal: Signal) -> str:
    """Return the OTLP protocol of a signal, by default `http/protobuf`."""
    own, common = f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"
    return os.environ.get(own) or os.environ.get(common) or "http/protobuf"


def own_tracers() -> "TracerProvider | None":
    """Return the tracer provider that the program has set, or None."""
    if "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry import trace  # noqa: PLC0415 - see above

    known = trace.get_tracer_provider()
    return None if isinstance(known, (trace.ProxyTracerProvider, trace.NoOpTracerProvider)) else known


def own_meters() -> "MeterProvider | None":
    if "opentelemetry.metrics" not in sys.modules:
        return None
    from opentelemetry import metrics  # noqa: PLC0415 - see above

    known = metrics.get_meter_provider()
    # The providers of the API itself record nothing, and one of them is not public.
    return None if type(known).__module__.startswith("opentelemetry.metrics") else known


def is_requested() -> bool:
    if is_disabled():
        return False
    return bool(exporters("traces") or exporters("metrics") or own_tracers() or own_meters())

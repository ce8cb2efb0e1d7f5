"""Requested: whether anybody asks for telemetry: by a provider of their own, or by the standard variables.

https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/. One thing is stricter
here: the standard sends to `localhost` when nothing is set, and Sojourn sends nothing.
"""

import os
import sys
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

__all__ = ["Signal", "anything", "exporters", "is_disabled", "own_meters", "own_tracers", "protocol"]

Signal = Literal["traces", "metrics"]


def is_disabled() -> bool:
    """Whether `OTEL_SDK_DISABLED` turns everything off."""
    return os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def exporters(signal: Signal) -> list[str]:
    """Names such as `otlp` or `console`; empty when the signal is off."""
    if is_disabled():
        return []
    named = os.environ.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip()
    if named:
        return [name for each in named.split(",") if (name := each.strip()) not in ("", "none")]
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT")
    return ["otlp"] if any(os.environ.get(name, "").strip() for name in endpoints) else []


def protocol(signal: Signal) -> str:
    """`http/protobuf`, the standard's default, or `grpc`."""
    own, common = f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"
    return os.environ.get(own) or os.environ.get(common) or "http/protobuf"


def own_tracers() -> "TracerProvider | None":
    """Return the tracer provider that the program has set; nothing is loaded to find out, since a program that has, has loaded it."""
    if "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry import trace  # noqa: PLC0415 - see above

    known = trace.get_tracer_provider()
    return None if isinstance(known, (trace.ProxyTracerProvider, trace.NoOpTracerProvider)) else known


def own_meters() -> "MeterProvider | None":
    """Return the meter provider that the program has set."""
    if "opentelemetry.metrics" not in sys.modules:
        return None
    from opentelemetry import metrics  # noqa: PLC0415 - see above

    known = metrics.get_meter_provider()
    # The API's own stand for none, and one of them has no public name.
    return None if type(known).__module__.startswith("opentelemetry.metrics") else known


def anything() -> bool:
    """Whether anybody asks for any signal."""
    if is_disabled():
        return False
    return bool(exporters("traces") or exporters("metrics") or own_tracers() or own_meters())

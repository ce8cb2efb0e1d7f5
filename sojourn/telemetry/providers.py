"""Find or make the tracer and meter providers.

They are those that the program has set, else new ones by the standard variables. A provider made here
becomes the global one, so that the spans of tools join the run's trace. An exporter that cannot be made is
logged.
"""

import os
from functools import cache
from importlib.metadata import entry_points
from typing import Any

import structlog
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from sojourn.telemetry import requested
from sojourn.telemetry.recorder import TelemetryRecorder
from sojourn.telemetry.requested import Signal

__all__ = ["recorder"]

_BY_PROTOCOL = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}

_log = structlog.get_logger("sojourn.telemetry")


def recorder() -> TelemetryRecorder | None:
    """Return the recorder of this process, or None without a provider."""
    tracers, meters = _tracer_provider(), _meter_provider()
    return TelemetryRecorder(tracers, meters) if tracers or meters else None


def _tracer_provider() -> trace.TracerProvider | None:
    if known := requested.own_tracers():
        return known
    made = _exporters("traces")
    if not made:
        return None
    provider = TracerProvider(resource=_resource())
    for exporter in made:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return provider


def _meter_provider() -> metrics.MeterProvider | None:
    if known := requested.own_meters():
        return known
    made = _exporters("metrics")
    if not made:
        return None
    readers = [
        each if isinstance(each, MetricReader) else PeriodicExportingMetricReader(each) for each in made
    ]
    provider = MeterProvider(metric_readers=readers, resource=_resource())
    metrics.set_meter_provider(provider)
    return provider


def _exporters(signal: Signal) -> list[Any]:
    """Return the requested exporters that OpenTelemetry's entry points name."""
    made: list[Any] = []
    for name in requested.exporters(signal):
        published = _BY_PROTOCOL.get(requested.protocol(signal), "") if name == "otlp" else name
        found = next(iter(entry_points(group=f"opentelemetry_{signal}_exporter", name=published)), None)
        try:
            if found is None:
                raise LookupError("no installed package provides it")
            made.append(found.load()())
        except Exception as error:  # noqa: BLE001 - an exporter is foreign code, which reads its own settings
            _warn_once(published or requested.protocol(signal), str(error)[:200])
    return made


@cache
def _warn_once(exporter: str, reason: str) -> None:
    """Log that an exporter cannot be made, once in the process."""
    _log.warning(
        "telemetry_not_exported",
        exporter=exporter,
        reason=reason,
        mend="pip install 'sojourn[otlp]', or correct the OTEL_ variables",
    )


def _resource() -> Resource:
    is_named = os.environ.get("OTEL_SERVICE_NAME") or SERVICE_NAME in os.environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    return Resource.create({} if is_named else {SERVICE_NAME: "sojourn"})

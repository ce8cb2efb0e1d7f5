"""Serve the Temporal SDK's own metrics on a port of this process."""

from temporalio.runtime import PrometheusConfig, Runtime, TelemetryConfig

from sojourn.errors import DefinitionError
from sojourn.logs.temporal import core_logging

__all__ = ["runtime_with_metrics"]


def runtime_with_metrics(at: str) -> Runtime:
    """Return a runtime that serves metrics at a port, or an address and a port.

    Raises:
        DefinitionError: `at` has no valid port, or another process listens there.
    """
    host, _, port = at.strip().rpartition(":")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        raise DefinitionError(
            f"metrics port {at!r} is neither a port, such as 9464, nor an address and a port, such as 0.0.0.0:9464"
        )
    address = f"{host or '127.0.0.1'}:{port}"
    try:
        metrics = PrometheusConfig(bind_address=address)
        return Runtime(telemetry=TelemetryConfig(logging=core_logging(), metrics=metrics))
    except ValueError as error:
        why = str(error).rpartition(": ")[2]
        raise DefinitionError(
            f"metrics cannot be served at {address} ({why}); choose another --metrics-port or SOJOURN_METRICS_PORT"
        ) from error

"""The core of Temporal's SDK, which is written in Rust, and prints coloured lines to standard output unless told."""

import functools
import gc
import logging

from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter

__all__ = ["core_logging", "logging_runtime", "stop_core_logging"]


def core_logging() -> LoggingConfig:
    """Its warnings and errors as records of the logger `temporalio.core`, for a `Runtime` with more than that."""
    return LoggingConfig(
        filter=TelemetryFilter(core_level="WARN", other_level="ERROR"),
        forwarding=LogForwardingConfig(
            logger=logging.getLogger("temporalio.core"),
            append_target_to_name=False,
            prepend_target_on_message=False,
            append_log_fields_to_message=False,
        ),
    )


@functools.cache
def logging_runtime() -> Runtime:
    """A runtime that logs as the rest does; one a process."""
    return Runtime(telemetry=TelemetryConfig(logging=core_logging()))


def stop_core_logging() -> None:
    """Have the core log nothing more: a line of its threads while the interpreter ends would abort the process."""
    logging_runtime.cache_clear()
    gc.collect()

"""The log of Temporal's core, which is written in Rust and by default prints colored lines to standard output."""

import functools
import gc
import logging

from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter

__all__ = ["core_logging", "logging_runtime", "stop_core_logging"]


def core_logging() -> LoggingConfig:
    """Return the configuration that makes the core's warnings and errors records of the logger `temporalio.core`."""
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
    """Return the runtime of this process, whose core logs through the standard library's logging."""
    return Runtime(telemetry=TelemetryConfig(logging=core_logging()))


def stop_core_logging() -> None:
    """Stop the log of the core: a record from its threads while the interpreter shuts down would abort the process."""
    logging_runtime.cache_clear()
    gc.collect()

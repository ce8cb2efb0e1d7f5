"""The log of Temporal's core, which is written in Rust, and prints coloured lines to standard output by default."""

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
    """Return the runtime of this process, whose core logs as the rest does."""
    return Runtime(telemetry=TelemetryConfig(logging=core_logging()))


def stop_core_logging() -> None:
    """Stop the log of the core: a line of its threads while the interpreter ends would abort the process."""
    logging_runtime.cache_clear()
    gc.collect()

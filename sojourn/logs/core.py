"""The log of Temporal's core, which is written in Rust and by default prints colored lines to standard output."""

import functools
import gc
import logging
import re

from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter

__all__ = ["core_logging", "logging_runtime", "stop_core_logging"]


_log = logging.getLogger("temporalio.core")

_RETRIED = re.compile(r"gRPC call \w+ retried \d+ times")
"""How the core begins each of its warnings about a request that it tries again: one for each poll, several a second."""

_QUIET = 30.0
"""Seconds between two of them."""

_last_told = -_QUIET


def _told_once(record: logging.LogRecord) -> bool:
    """Let one warning about a server that does not answer pass in 30 s, in a sentence."""
    global _last_told  # noqa: PLW0603 - one log, and one server, a process
    if not _RETRIED.match(record.getMessage()):
        return True
    if record.created - _last_told < _QUIET:
        return False
    _last_told = record.created
    record.msg, record.args = (
        "the Temporal server does not answer; what waits for it goes on by itself once it does",
        (),
    )
    return True


def core_logging() -> LoggingConfig:
    """Return the configuration that makes the core's warnings and errors records of the logger `temporalio.core`."""
    _log.addFilter(_told_once)
    return LoggingConfig(
        filter=TelemetryFilter(core_level="WARN", other_level="ERROR"),
        forwarding=LogForwardingConfig(
            logger=_log,
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

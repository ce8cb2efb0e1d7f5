"""The runtime of Temporal's SDK, with its records in the log and its metrics.

The SDK logs a traceback of 40 lines for every failed attempt, even an intended one, appends the ids to
each message as a dict, and logs whole payloads at level debug.
"""

import functools
import gc
import logging
import re
from typing import Any

from structlog.typing import EventDict, WrappedLogger
from temporalio.exceptions import ApplicationError
from temporalio.runtime import (
    LogForwardingConfig,
    LoggingConfig,
    PrometheusConfig,
    Runtime,
    TelemetryConfig,
    TelemetryFilter,
)

from sojourn.errors import DefinitionError
from sojourn.logs.values import WITHOUT_MESSAGES

__all__ = [
    "AlreadyLogged",
    "core_logging",
    "logging_runtime",
    "mark_as_logged",
    "normalize",
    "runtime_with_metrics",
    "stop_core_logging",
]

_MARK = "_sojourn_has_logged"
_IDS = {
    "workflow_id": "run_id",
    "activity_id": "activity_id",
    "activity_type": "activity_type",
    "attempt": "attempt",
}

_DROPPED = ("__temporal_error_identifier", "activity_info", "workflow_info")


def mark_as_logged(error: ApplicationError) -> None:
    vars(error)[_MARK] = True


class AlreadyLogged(logging.Filter):
    """Drops the SDK's record of a failed attempt that Sojourn has logged."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        is_logged = isinstance(error, ApplicationError) and vars(error).get(_MARK, False)
        return not is_logged or logging.getLogger().isEnabledFor(logging.DEBUG)


def normalize(logger: WrappedLogger, name: str, event_dict: EventDict) -> EventDict:
    """Format a `logging` message, and move Temporal's ids into fields."""
    del logger, name
    arguments: tuple[Any, ...] | dict[str, Any] | None = event_dict.pop("positional_args", None)
    if arguments:
        event_dict["event"] %= tuple(map(_brief, arguments)) if isinstance(arguments, tuple) else arguments
    event_dict["event"] = event_dict["event"].rstrip()
    if event_dict["_record"].name == "asyncio" and event_dict.get("exc_info"):
        # No code awaited this task: its call has ended, and with it the mask for the exception's
        # message.
        event_dict["event"], event_dict[WITHOUT_MESSAGES] = event_dict["event"].split("\n", 1)[0], True
    for key in ("temporal_activity", "temporal_workflow"):
        details: dict[str, Any] = event_dict.pop(key, None) or {}
        event_dict["event"] = event_dict["event"].removesuffix(f" ({details})")
        for detail, field in _IDS.items():
            if detail in details:
                event_dict.setdefault(field, details[detail])
    if core := event_dict.pop("temporal_log", None):
        event_dict.update(
            target=core.target, **{f"core_{name}": value for name, value in core.fields.items()}
        )
    for key in _DROPPED:
        event_dict.pop(key, None)
    return event_dict


def _brief(argument: Any) -> Any:
    """Return an argument, or the size of a protobuf message, which may hold payloads."""
    return f"<{argument.ByteSize()} bytes>" if hasattr(argument, "ByteSize") else argument


_log = logging.getLogger("temporalio.core")

_RETRIED = re.compile(r"gRPC call \w+ retried \d+ times")
"""The beginning of each warning of the core about a request that it retries, several a second."""

_QUIET = 30.0
_last_told = -_QUIET


def _was_logged_before(record: logging.LogRecord) -> bool:
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
    """Return the configuration that makes the core's warnings logging records."""
    _log.addFilter(_was_logged_before)
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
    return Runtime(telemetry=TelemetryConfig(logging=core_logging()))


def stop_core_logging() -> None:
    """Stop the core's log, which would abort the process at its end."""
    logging_runtime.cache_clear()
    gc.collect()


def runtime_with_metrics(address: str) -> Runtime:
    """Return a runtime that serves metrics at an address and a port.

    If another process listens there, a warning says so, and the runtime serves none: a worker that drains holds its
    port for a while, and the one that replaces it must not fail for it.

    Raises:
        DefinitionError: The address is none of this machine.
    """
    try:
        metrics = PrometheusConfig(bind_address=address)
        return Runtime(telemetry=TelemetryConfig(logging=core_logging(), metrics=metrics))
    except ValueError as error:
        why = str(error).rpartition(": ")[2]
        if "in use" in why:
            _log.warning("no metrics are served: %s is in use; restart this worker once it is free", address)
            return logging_runtime()
        raise DefinitionError(
            f"metrics cannot be served at {address} ({why}); choose another --metrics-port or SOJOURN_METRICS_PORT"
        ) from error

"""Records of Temporal's SDK: its ids under our names, no payloads, and nothing said twice.

The SDK writes a traceback of 40 lines for every attempt that fails, on purpose too, adds the ids to
each message as a dict, and prints whole payloads at level debug.
"""

import logging
from typing import Any

from structlog.typing import EventDict, WrappedLogger
from temporalio.exceptions import ApplicationError

__all__ = ["SaidAlready", "mark_as_said", "put_together"]

_MARK = "_sojourn_has_logged"
_IDS = {
    "workflow_id": "run_id",
    "activity_id": "activity_id",
    "activity_type": "activity_type",
    "attempt": "attempt",
}
"""What is kept of the SDK's own details, and its name here."""

_DROPPED = ("__temporal_error_identifier", "activity_info", "workflow_info")


def mark_as_said(error: ApplicationError) -> None:
    """Sojourn has written a line of its own about a failed attempt."""
    vars(error)[_MARK] = True


class SaidAlready(logging.Filter):
    """Drops the SDK's record of a failed attempt that Sojourn has told in one line."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is written; at level debug everything is."""
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        said = isinstance(error, ApplicationError) and vars(error).get(_MARK, False)
        return not said or logging.getLogger().isEnabledFor(logging.DEBUG)


def put_together(logger: WrappedLogger, name: str, event_dict: EventDict) -> EventDict:
    """A structlog processor for records of the standard library: put the message together, ids as fields."""
    del logger, name
    arguments: tuple[Any, ...] | dict[str, Any] | None = event_dict.pop("positional_args", None)
    if arguments:
        event_dict["event"] %= tuple(map(_brief, arguments)) if isinstance(arguments, tuple) else arguments
    event_dict["event"] = event_dict["event"].rstrip()
    if event_dict["_record"].name == "asyncio" and event_dict.get("exc_info"):
        # A task that nobody waited for; its call is over, and nothing known any more of what to mask.
        event_dict["event"], event_dict["says"] = event_dict["event"].split("\n", 1)[0], False
    for key in ("temporal_activity", "temporal_workflow"):
        details: dict[str, Any] = event_dict.pop(key, None) or {}
        event_dict["event"] = event_dict["event"].removesuffix(f" ({details})")
        for theirs, ours in _IDS.items():
            if theirs in details:
                event_dict.setdefault(ours, details[theirs])
    if core := event_dict.pop("temporal_log", None):
        event_dict.update(
            target=core.target, **{f"core_{name}": value for name, value in core.fields.items()}
        )
    for key in _DROPPED:
        event_dict.pop(key, None)
    return event_dict


def _brief(argument: Any) -> Any:
    """An argument of a message; one that holds payloads by its size."""
    return f"<{argument.ByteSize()} bytes>" if hasattr(argument, "ByteSize") else argument

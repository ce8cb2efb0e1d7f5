"""Send structlog and the standard library's logging to standard error."""

import logging
import os
import sys
import threading
from typing import Any, Final, Literal

import structlog
from structlog.typing import EventDict, WrappedLogger

from sojourn.errors import DefinitionError
from sojourn.logs.values import describe_error, describe_exception, in_short, is_described, mask_event

__all__ = ["LEVELS", "configure_logs", "lead_to_logging"]

LEVELS: Final = ("debug", "info", "warning", "error", "critical")
_FORMATS: Final = ("console", "json")
_FIRST: Final = ("timestamp", "level", "logger", "event")

_VERBOSE: Final = ("asyncio", "httpcore", "httpcore2", "httpx", "httpx2", "mcp", "temporalio", "urllib3")
"""Loggers whose records at level info only help to find a fault, and hold URLs with their query."""


def configure_logs(
    *,
    format: Literal["console", "json"] | None = None,
    level: str | None = None,
    force: bool = False,
) -> None:
    """Write the logs of structlog and of `logging` to standard error, in one format.

    A program's own configuration stays: handlers of the root logger keep their formats and levels,
    and get Sojourn's lines as text; a configuration of structlog is not changed.

    Args:
        format: `console` for people, `json` for one JSON object a line; when left out,
            `SOJOURN_LOG_FORMAT`, else `console` on a terminal and `json` elsewhere.
        level: `debug`, `info`, `warning`, `error` or `critical`; when left out, `SOJOURN_LOG_LEVEL`, else `info`.
        force: Replace the program's own configuration.

    Raises:
        DefinitionError: A setting has another value.
    """
    chosen = _choice("SOJOURN_LOG_FORMAT", format, _FORMATS) or ("console" if sys.stderr.isatty() else "json")
    least = getattr(logging, (_choice("SOJOURN_LOG_LEVEL", level, LEVELS) or "info").upper())
    root = logging.getLogger()
    has_handlers = bool(root.handlers) and not force
    if not has_handlers:
        _take_over(root, _console() if chosen == "console" else _json(), least)
    if force or not structlog.is_configured():
        last = _as_text if has_handlers else structlog.stdlib.ProcessorFormatter.wrap_for_formatter
        _through_logging(last, is_final=True)


def lead_to_logging() -> None:
    """Send the lines of structlog to logging, unless the program has configured it.

    By default structlog prints every line to standard output. With this function, a program that embeds a
    worker gets warnings and errors only, until it configures logging.
    """
    if not structlog.is_configured():
        _through_logging(_as_text, is_final=False)


def _through_logging(last: Any, *, is_final: bool) -> None:
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_SHARED,
            structlog.processors.StackInfoRenderer(),
            last,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=is_final,
    )


_SHARED: Final[list[Any]] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]


def _choice(variable: str, argument: str | None, allowed: tuple[str, ...]) -> str | None:
    if argument is None:
        place, value = variable, os.environ.get(variable)
    else:
        place, value = "configure_logs", argument
    if not value:
        return None
    if value.lower() not in allowed:
        raise DefinitionError(f"{place}: {value[:60]!r} is none of {', '.join(allowed)}")
    return value.lower()


def _take_over(root: logging.Logger, renderers: list[Any], least: int) -> None:
    from sojourn.logs.temporal import AlreadyLogged, normalize  # noqa: PLC0415 - loads the SDK

    formatter = structlog.stdlib.ProcessorFormatter(
        processors=[
            describe_exception,
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            mask_event,
            _order,
            *renderers,
        ],
        foreign_pre_chain=[structlog.stdlib.ExtraAdder(), normalize, *_SHARED],
        use_get_message=False,
        pass_foreign_args=True,
    )
    handler = _Handler(sys.stderr)
    handler.setFormatter(formatter)
    handler.addFilter(AlreadyLogged())
    root.handlers[:] = [handler]
    root.setLevel(least)
    logging.captureWarnings(capture=True)
    threading.excepthook = _thread_failed
    for name in _VERBOSE if least == logging.INFO else ():
        verbose = logging.getLogger(name)
        verbose.setLevel(verbose.level or logging.WARNING)


def _thread_failed(ended: threading.ExceptHookArgs) -> None:
    """Log the exception that ended a thread, without its message, as it is unmasked."""
    if ended.exc_value is not None and not isinstance(ended.exc_value, SystemExit):
        name = ended.thread.name if ended.thread else None
        raised = describe_error(ended.exc_value, with_messages=False)
        structlog.get_logger("sojourn.thread").error("thread_failed", thread=name, raised=raised)


class _Handler(logging.StreamHandler[Any]):
    """Writes lines to a stream, of an unformattable record its logger and place."""

    def format(self, record: logging.LogRecord) -> str:
        try:
            return super().format(record)
        except Exception as error:  # noqa: BLE001 - the standard library would print the record's arguments
            where = f"{record.pathname}:{record.lineno}"
            why = f"a record that cannot be written: {type(error).__name__} at {where}"
            kept = {key: getattr(record, key) for key in ("name", "levelname", "levelno")}
            return super().format(logging.makeLogRecord({**kept, "msg": why}))


def _order(logger: WrappedLogger, name: str, event_dict: EventDict) -> EventDict:
    del logger, name
    first = {key: event_dict.pop(key) for key in _FIRST if key in event_dict}
    return {**first, **event_dict}


def _json() -> list[Any]:
    return [structlog.processors.JSONRenderer()]


def _console() -> list[Any]:
    colors = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    renderer = structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)
    return [_for_people, renderer]


def _for_people(logger: WrappedLogger, name: str, event_dict: EventDict) -> EventDict:
    """Shorten exceptions, and indent lines that could pass for other records."""
    del logger, name
    event_dict["event"] = str(event_dict.get("event", "")).replace("\n", "\n    ")
    if "exception" in event_dict:
        links = event_dict["exception"]
        event_dict["exception"] = in_short(links) if is_described(links) else f"    {links}"
    return event_dict


def _as_text(logger: WrappedLogger, name: str, event_dict: EventDict) -> str:
    fields = _for_people(logger, name, mask_event(logger, name, describe_exception(logger, name, event_dict)))
    exception = f"\n{fields.pop('exception')}" if "exception" in fields else ""
    event = fields.pop("event")
    further = [f" {key}={value!r}" for key, value in fields.items() if key not in _FIRST]
    return f"{event}{''.join(further)}{exception}"

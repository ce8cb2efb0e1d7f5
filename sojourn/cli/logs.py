"""Logs of the commands: for people on a terminal, JSON for machines."""

import logging
import os
import sys
from typing import Any

import structlog

__all__ = ["configure_logs"]


def configure_logs() -> None:
    """Structlog to standard error; `SOJOURN_LOG_FORMAT` is `console` or `json`, `SOJOURN_LOG_LEVEL` a level name."""
    level = getattr(logging, os.environ.get("SOJOURN_LOG_LEVEL", "info").upper(), logging.INFO)
    wanted = os.environ.get("SOJOURN_LOG_FORMAT") or ("console" if sys.stderr.isatty() else "json")
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if wanted == "json":
        shared += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        shared += [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    structlog.configure(
        processors=shared,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=max(level, logging.WARNING), stream=sys.stderr)

"""Logs: one pipeline for structlog and the standard library's logging; console for people, JSON for machines.

The package decides what a line may hold (masked, bounded, printable), which lines a worker writes, and which lines of
Temporal's SDK are dropped. It imports structlog, the standard library's logging and Temporal's SDK, configures nothing on
import, and keeps a program's own configuration; such a program adds `masked` to its own chain of processors. Begin at
`configure`, whose `configure_logs()` the commands and `App.serve()` call.
"""

from sojourn.logs.configure import configure_logs
from sojourn.logs.values import masked

__all__ = ["configure_logs", "masked"]

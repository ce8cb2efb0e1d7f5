"""Logs: one pipeline for structlog and the standard library's logging; console for people, JSON for machines.

The package decides what a line may hold (masked, bounded, printable), which lines a worker writes, and which of Temporal's
it drops. It knows structlog, the standard library's logging and Temporal's SDK, configures nothing on import, and leaves
what a program has configured itself; such a program takes `masked` into its own chain of processors. Begin at `configure`,
whose `configure_logs()` the commands and `App.serve()` call.
"""

from sojourn.logs.configure import configure_logs
from sojourn.logs.values import masked

__all__ = ["configure_logs", "masked"]

"""Logs: one pipeline for structlog and the standard library's logging; console for people, JSON for machines.

Nothing is configured on import. The commands and `App.serve()` call `configure_logs()`, which leaves what
a program has configured itself; such a program takes `masked` into its own chain of processors.
"""

from sojourn.logs.configure import configure_logs
from sojourn.logs.values import masked

__all__ = ["configure_logs", "masked"]

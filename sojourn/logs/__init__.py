"""One log pipeline for structlog and the standard library's logging.

The package decides on the content of a line (masked, bounded, printable), which lines a worker writes, and
which lines of Temporal's SDK are dropped. It configures nothing on import, and does not replace a program's
own configuration; such a program adds `mask_event` to its own chain of processors. Begin at `configure`, whose
`configure_logs()` the commands and `App.serve()` call.
"""

from sojourn.logs.configure import configure_logs
from sojourn.logs.values import mask_event

__all__ = ["configure_logs", "mask_event"]

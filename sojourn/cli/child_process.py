"""A process of `sojourn dev`: it serves until its parent ends it, or is gone.

Its standard input is a pipe from the process that started it, so when that process ends, in any way, the input ends too, and this one stops.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import NoReturn

from sojourn.cli.failure import OK, failure_of

__all__ = ["end_with_parent", "run"]


def run(serve: Callable[[], None]) -> NoReturn:
    """Serve, and end the process; an error is reported as by every command."""
    code = OK
    try:
        serve()
    except BaseException as error:  # noqa: BLE001
        failure = failure_of(error)
        failure.tell(as_json=False)
        code = failure.exit_code
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def end_with_parent() -> None:
    """From now on, stop as by SIGTERM once the process that started this one has ended."""
    threading.Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)

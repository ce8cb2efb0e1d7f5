"""Run a process of `sojourn dev` until its parent stops it or ends.

Its standard input is a pipe from its parent. If the parent ends, for any reason, the input ends
too, and this process stops.
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
    """Serve, and end the process with an exit code.

    An error is reported as every command reports it.
    """
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
    """Stop as by SIGTERM once the process that started this one has ended."""
    threading.Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)

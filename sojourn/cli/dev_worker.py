"""The worker of `sojourn dev`: says when its app is loaded, and ends with the process that started it.

    python -m sojourn.cli.dev_worker MODULE:APP TASK_QUEUE DESCRIPTOR

A byte is written to the descriptor once the app is loaded. Standard input is the life line: its end is
the end of the other process, by whatever way, and this one drains.
"""

import os
import signal
import sys
import threading

__all__: list[str] = []


def main(target: str, task_queue: str, descriptor: int) -> int:
    """Load, say so, and serve; returns the exit code."""
    from sojourn.cli.failure import failure_of
    from sojourn.cli.load_app import load_app
    from sojourn.cli.worker_command import run_worker

    try:
        load_app(target)
        os.write(descriptor, b"1")
        os.close(descriptor)
        threading.Thread(target=_end_with_parent, daemon=True).start()
        return run_worker(target, task_queue)
    except BaseException as error:  # noqa: BLE001 - told as every command does
        failure = failure_of(error)
        failure.tell(as_json=False)
        return failure.exit_code


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    code = main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

"""`sojourn worker`: serve an app."""

from sojourn.cli.exit_codes import OK
from sojourn.cli.load_app import load_app
from sojourn.worker import serve

__all__ = ["run_worker"]


def run_worker(target: str, task_queue: str | None, metrics_port: str | None = None) -> int:
    """Serve until SIGTERM or Ctrl-C, then drain."""
    serve(load_app(target), task_queue=task_queue, metrics_port=metrics_port)
    return OK

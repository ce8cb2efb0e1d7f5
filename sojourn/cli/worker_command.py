"""`sojourn worker`: serve an app."""

import asyncio

from sojourn.cli.exit_codes import OK
from sojourn.cli.load_app import load_app
from sojourn.logs import configure_logs
from sojourn.worker import serve_forever

__all__ = ["run_worker"]


def run_worker(target: str, task_queue: str | None, metrics_port: str | None = None) -> int:
    """Serve until SIGTERM or Ctrl-C, then drain."""
    app = load_app(target)
    configure_logs()
    asyncio.run(serve_forever(app, task_queue=task_queue, metrics_port=metrics_port))
    return OK

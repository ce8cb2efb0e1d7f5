"""`sojourn worker`: serve an app."""

import asyncio

from sojourn.cli.exit_codes import OK
from sojourn.cli.load_app import load_app
from sojourn.cli.logs import configure_logs
from sojourn.worker import serve_forever

__all__ = ["run_worker"]


def run_worker(target: str, task_queue: str | None) -> int:
    """Serve until SIGTERM or Ctrl-C, then drain."""
    configure_logs()
    app = load_app(target)
    asyncio.run(serve_forever(app, task_queue=task_queue))
    return OK

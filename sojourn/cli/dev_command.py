"""`sojourn dev`: the embedded server and a worker, together, until Ctrl-C."""

import asyncio
import os
from pathlib import Path

from sojourn.cli.exit_codes import OK
from sojourn.cli.load_app import load_app
from sojourn.cli.logs import configure_logs
from sojourn.server import Server
from sojourn.worker import serve_forever

__all__ = ["run_dev"]

DATABASE = Path(".sojourn/temporal.db")
"""Keeps runs over restarts."""


def run_dev(target: str, task_queue: str | None) -> int:
    """Start a server or attach to the one that runs, then serve the app."""
    configure_logs()
    app = load_app(target)

    async def main() -> None:
        async with Server(db_filename=DATABASE) as server:
            os.environ["TEMPORAL_ADDRESS"] = server.address
            print(f"Temporal server {server.address}   UI {server.ui_url}", flush=True)
            await serve_forever(app, task_queue=task_queue, address=server.address)

    asyncio.run(main())
    return OK

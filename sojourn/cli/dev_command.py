"""`sojourn dev`: the embedded server and a worker, together, with reload on change, until Ctrl-C."""

import asyncio
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

from sojourn.cli.dev_reload import Reloader, Tell
from sojourn.cli.exit_codes import NO_SERVER, OK, CommandError
from sojourn.cli.load_app import check_target, load_app
from sojourn.connection import settings
from sojourn.server import Server
from sojourn.worker import serve_forever

__all__ = ["run_dev"]

DATABASE = Path(".sojourn/temporal.db")
"""Keeps runs over restarts."""


def run_dev(target: str, task_queue: str | None, *, reload: bool, port: int | None, as_json: bool) -> int:
    """Start a server or attach to the one that runs, then serve the app; returns the exit code."""
    tell = _teller(as_json=as_json)
    if reload and importlib.util.find_spec("watchfiles") is None:
        print(
            "sojourn: no reload on change without watchfiles: pip install 'sojourn[server]'", file=sys.stderr
        )
        reload = False
    queue = settings.task_queue(task_queue)

    async def main() -> int:
        async with Server(db_filename=DATABASE, port=port) as server:
            os.environ["TEMPORAL_ADDRESS"] = server.address
            tell(
                "server",
                f"Temporal server {server.address}   UI {server.ui_url}",
                {"address": server.address, "ui_url": server.ui_url, "task_queue": queue},
            )
            if reload:
                serving = asyncio.create_task(Reloader(target, queue, tell).run())
            else:
                serving = asyncio.create_task(_serve(target, queue))
            return await _until_ended(serving, server)

    # What is wrong is told before a server starts; with reload, what is wrong inside the module may be mended.
    check_target(target) if reload else load_app(target)
    return asyncio.run(main())


async def _serve(target: str, queue: str) -> int:
    from sojourn.logs import configure_logs

    app = load_app(target)
    configure_logs()
    await serve_forever(app, task_queue=queue)
    return OK


async def _until_ended(serving: "asyncio.Task[int]", server: Server) -> int:
    """Wait for the worker's end, or for the server's, which ends both."""
    if server.attached:
        return await serving
    dying = asyncio.create_task(server.wait())
    try:
        await asyncio.wait({serving, dying}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            return serving.result()
        serving.cancel()
        await asyncio.wait({serving})
        raise CommandError(
            f"the Temporal server ended with status {dying.result()}; it said:\n{server.log_tail()}",
            exit_code=NO_SERVER,
        )
    finally:
        dying.cancel()
        await asyncio.wait({dying})


def _teller(*, as_json: bool) -> Tell:
    """Says on standard output what happens: a line for people, or an object."""

    def tell(event: str, line: str, more: dict[str, Any]) -> None:
        print(json.dumps({"event": event, **more}) if as_json else line, flush=True)

    return tell

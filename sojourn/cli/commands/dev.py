"""`sojourn dev`: the embedded server and a worker, together, with reload on change, until Ctrl-C."""

import asyncio
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli.failure import NO_SERVER, OK, CommandError
from sojourn.cli.options import Json, Target, TaskQueue, encrypted, load_app

if TYPE_CHECKING:
    from sojourn.server import Server

__all__ = ["dev"]

DATABASE = Path(".sojourn/temporal.db")
"""The file of the server's data, so that runs outlive it."""


@encrypted
def dev(
    target: Target,
    task_queue: TaskQueue = None,
    reload: Annotated[
        bool, typer.Option("--reload/--no-reload", help="Reload the app when a file changes.")
    ] = True,
    port: Annotated[
        int | None, typer.Option(help="The port of the server to use or to start; default: 7233.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Run the embedded server and a worker together, until Ctrl-C.

    \b
    sojourn dev worker:app
    """
    from sojourn.cli.reload import Reloader
    from sojourn.connection import settings
    from sojourn.server import Server
    from sojourn.target import check_target

    def tell(event: str, line: str, more: dict[str, Any]) -> None:
        print(json.dumps({"event": event, **more}) if as_json else line, flush=True)

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
            serving = Reloader(target, queue, tell).run() if reload else _serve(target, queue)
            return await _until_ended(asyncio.create_task(serving), server)

    # Fails before a server starts; with reload, an error inside the module can still be corrected.
    check_target(target) if reload else load_app(target)
    return asyncio.run(main())


async def _serve(target: str, queue: str) -> int:
    from sojourn.logs import configure_logs
    from sojourn.worker import serve_forever

    app = load_app(target)
    configure_logs()
    await serve_forever(app, task_queue=queue)
    return OK


async def _until_ended(serving: "asyncio.Task[int]", server: "Server") -> int:
    """Wait until the worker ends, and return its exit code; stop it if the server that was started here ends.

    Raises:
        CommandError: The server ended; with the end of its log.
    """
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
            f"the Temporal server ended with status {dying.result()}; the end of its log:\n{server.log_tail()}",
            exit_code=NO_SERVER,
        )
    finally:
        dying.cancel()
        await asyncio.wait({dying})

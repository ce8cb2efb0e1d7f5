"""`sojourn dev` runs a server, and a worker and a service that reload on change."""

import asyncio
import importlib.util
import json
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli.failure import NO_SERVER, OK, USAGE, CommandError
from sojourn.cli.options import (
    Json,
    Target,
    TaskQueue,
    add_encryption_options,
    load_app,
    load_worker_app,
    queue_for,
)
from sojourn.cli.screen.text import plain

if TYPE_CHECKING:
    from socket import socket

    from sojourn.cli.dev_processes import ServiceProcess, Tell
    from sojourn.server import Server

__all__ = ["dev"]

DATABASE = Path(".sojourn/temporal.db")
"""Default file of the server's data, so that runs outlive the server."""


@add_encryption_options
def dev(
    target: Target,
    task_queue: TaskQueue = None,
    reload: Annotated[
        bool, typer.Option("--reload/--no-reload", help="Reload the app when a file changes.")
    ] = True,
    port: Annotated[
        int | None,
        typer.Option(
            help="The port of the server to use or to start. Default: that of a local TEMPORAL_ADDRESS, else 7233."
        ),
    ] = None,
    http: Annotated[
        bool,
        typer.Option("--http/--no-http", help="Serve the app over HTTP too, if sojourn[http] is installed."),
    ] = True,
    http_port: Annotated[
        int | None,
        typer.Option(
            "--http-port", help="The port of the HTTP service. Default: 8460, or the next free one."
        ),
    ] = None,
    ui: Annotated[
        bool, typer.Option("--ui/--no-ui", help="Start Temporal's UI too. It has no authentication.")
    ] = True,
    ui_port: Annotated[
        int | None,
        typer.Option(
            "--ui-port", help="The port of Temporal's UI. Default: 1000 above the server's, if free."
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Run the embedded server, a worker and the HTTP service together, until Ctrl-C.

    \b
    sojourn dev worker:app
    """
    from sojourn.cli.dev_processes import Reloader
    from sojourn.connection import settings
    from sojourn.server import Server
    from sojourn.target import check_target

    def tell(event: str, line: str, more: dict[str, Any]) -> None:
        print(json.dumps({"event": event, **more}) if as_json else line, flush=True)

    for number, option, is_on in ((http_port, "http", http), (ui_port, "ui", ui)):
        if number is not None and not is_on:
            raise CommandError(f"give either --{option}-port or --no-{option}", exit_code=USAGE)
    if reload and importlib.util.find_spec("watchfiles") is None:
        print(
            "sojourn: no reload on change without watchfiles: pip install 'sojourn[server]'", file=sys.stderr
        )
        reload = False
    if task_queue:
        os.environ["SOJOURN_TASK_QUEUE"] = task_queue
    here = settings.local_port() if port is None else port

    async def main() -> int:
        # The HTTP service takes its port first: an error comes before a server starts, whose UI leaves that port free.
        async with (
            _listener(http_port) if http and _is_installed() else nullcontext() as listener,
            Server(db_filename=DATABASE, port=here, ui=ui, ui_port=ui_port) as server,
            _live_text(server.address),
            _service(target, listener, server.ui_url) as service,
        ):
            os.environ["TEMPORAL_ADDRESS"] = server.address
            tell(
                "server",
                _server_line(server, ui=ui),
                {"address": server.address, "ui_url": server.ui_url, "attached": server.attached},
            )

            if service is not None:
                tell("http", f"HTTP service {service.address}", {"address": service.address})

            def suggest(agent_id: str) -> None:
                if not as_json:
                    print(f"next, in another terminal: {_run_line(agent_id, server.address)}", flush=True)

            told = _replacing_service(tell, service)
            serving = Reloader(target, told, suggest).run() if reload else _serve(target, suggest, service)
            return await _until_ended(asyncio.create_task(serving), server)

    # Fails before a server starts; with reload, an error inside the module can still be corrected.
    _use_vault()
    check_target(target) if reload else load_app(target)
    return asyncio.run(main())


def _use_vault() -> None:
    """Keep OAuth tokens beside the database, unless a vault is set."""
    from sojourn.connection import settings
    from sojourn.private import private_folder

    if settings.vault() or importlib.util.find_spec("cryptography") is None:
        return
    from sojourn.crypto.ring_file import add_key, new_key

    folder = Path(DATABASE).absolute().parent
    os.environ["SOJOURN_VAULT"] = f"folder:{folder / 'vault'}"
    if settings.vault_key_ring() is None:
        ring = folder / "vault-keyring.json"
        if not ring.exists():
            private_folder(folder)
            add_key(ring, new_key(""), rotate=False)
        os.environ["SOJOURN_VAULT_KEYRING"] = str(ring)


@asynccontextmanager
async def _live_text(address: str) -> AsyncGenerator[None]:
    """Send models' text to other terminals, through `SOJOURN_LIVE` or a local hub."""
    from sojourn.connection import settings
    from sojourn.live.hub import serving
    from sojourn.live.unix import SCHEME, socket_of

    url = settings.live() or f"{SCHEME}{socket_of(address)}"
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(serving(url))
        except OSError as error:
            why = f"{error.strerror or error}: {error.filename}" if error.filename else str(error)
            print(
                f"sojourn: other terminals get no text while a model writes it: {plain(why)}", file=sys.stderr
            )
        else:
            os.environ["SOJOURN_LIVE"] = url
        yield


def _server_line(server: "Server", *, ui: bool) -> str:
    at = f"UI {server.ui_url}" if server.ui_url else "its UI is elsewhere" if ui else "no UI"
    was = ""
    if server.attached:
        elsewhere = "it may have other runs, and its data is where it was started"
        data = "its data is in this folder" if server.uses_database else elsewhere
        was = f", which was running already: {data}"
    return f"Temporal server {server.address}{was}   {at}"


def _is_installed() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in ("fastapi", "uvicorn"))


@asynccontextmanager
async def _listener(port: int | None) -> AsyncGenerator["socket"]:
    from sojourn.http.listening import listen
    from sojourn.server.ports import HOST

    with listen(HOST, port, options="--http-port") as listener:
        yield listener


@asynccontextmanager
async def _service(
    target: str, listener: "socket | None", temporal_ui: str | None
) -> AsyncGenerator["ServiceProcess | None"]:
    if listener is None:
        yield None
        return
    from sojourn.cli.dev_processes import ServiceProcess

    service = ServiceProcess(target, listener, temporal_ui)
    try:
        yield service
    finally:
        await service.stop()


def _run_line(agent_id: str, address: str) -> str:
    from sojourn.server import USUAL_PORT

    is_usual = address.rpartition(":")[2] == str(USUAL_PORT)
    return f'{"" if is_usual else f"TEMPORAL_ADDRESS={address} "}sojourn run {agent_id} "hello"'


def _replacing_service(tell: "Tell", service: "ServiceProcess | None") -> "Tell":
    def tell_and_replace(event: str, line: str, more: dict[str, Any]) -> None:
        tell(event, line, more)
        if service is not None and event in ("serving", "reloaded"):
            service.replace()

    return tell_and_replace


async def _serve(target: str, suggest: Callable[[str], None], service: "ServiceProcess | None") -> int:
    from sojourn.cli.dev_processes import quiet_worker
    from sojourn.logs import configure_logs
    from sojourn.worker import serve_forever

    app = load_worker_app(target)
    configure_logs()
    quiet_worker()
    suggest(next(iter(app.list_agents()), "AGENT"))
    if service is not None:
        service.replace()
    await serve_forever(app, task_queue=queue_for(app, target))
    return OK


async def _until_ended(serving: "asyncio.Task[int]", server: "Server") -> int:
    """Wait until the worker ends. Stop it if the server started here ends."""
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

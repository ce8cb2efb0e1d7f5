"""`sojourn server` runs a Temporal server in the foreground."""

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sojourn.cli.failure import OK, CommandError
from sojourn.cli.options import Json

if TYPE_CHECKING:
    from sojourn.server import Server

__all__ = ["server"]


def server(
    port: Annotated[
        int | None,
        typer.Option(
            help="The frontend's port. Default: that of a local TEMPORAL_ADDRESS, else 7233 if free."
        ),
    ] = None,
    ui_port: Annotated[
        int | None, typer.Option(help="The UI's port. Default: 1000 above the frontend's, if free.")
    ] = None,
    db: Annotated[Path, typer.Option(help="The SQLite file of the server's data.")] = Path(
        ".sojourn/temporal.db"
    ),
    in_memory: Annotated[bool, typer.Option("--in-memory", help="Store nothing on disk.")] = False,
    headless: Annotated[bool, typer.Option("--headless", help="No UI.")] = False,
    as_json: Json = False,
) -> int:
    """Run the embedded Temporal server in the foreground.

    \b
    sojourn server --db .sojourn/temporal.db
    """
    from sojourn.connection import settings
    from sojourn.server import Server

    server = Server(
        db_filename=None if in_memory else db,
        log_filename=None if in_memory else db.with_suffix(".log"),
        port=settings.local_port() if port is None else port,
        ui_port=ui_port,
        ui=not headless,
        attach=False,
        on_progress=_print_progress,
    )
    return asyncio.run(_serve(server, None if in_memory else db, as_json=as_json))


async def _serve(server: "Server", db: Path | None, *, as_json: bool) -> int:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    life = asyncio.create_task(_live(server, db, as_json=as_json))
    stop = asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait((life, stop), return_when=asyncio.FIRST_COMPLETED)
        return OK if stopped.is_set() else await life
    finally:
        life.cancel()
        stop.cancel()
        await asyncio.gather(life, stop, return_exceptions=True)
        await server.stop()


async def _live(server: "Server", db: Path | None, *, as_json: bool) -> int:
    await server.start()
    print(_as_json(server, db) if as_json else _as_text(server, db), flush=True)
    status = await server.wait()
    raise CommandError(
        f"the Temporal server ended with status {status}; the end of its log:\n{server.log_tail()}"
    )


def _as_json(server: "Server", db: Path | None) -> str:
    cli = server.cli
    return json.dumps(
        {
            "address": server.address,
            "namespace": server.namespace,
            "ui_url": server.ui_url,
            "db": str(db.absolute()) if db else None,
            "pid": server.pid,
            "cli": {"path": str(cli.path), "version": cli.version, "source": cli.source} if cli else None,
        }
    )


def _as_text(server: "Server", db: Path | None) -> str:
    lines = [f"Temporal server on {server.address}"]
    if server.ui_url:
        lines.append(f"  UI       {server.ui_url}")
    lines.append(f"  data     {db or 'in memory, lost when it stops'}")
    if server.cli:
        lines.append(f"  command  {server.cli.path} {server.cli.version} ({server.cli.source})")
    lines.append("Ctrl-C stops it.")
    return "\n".join(lines)


def _print_progress(line: str) -> None:
    """Print progress on standard error: standard output has only the addresses."""
    print(line, file=sys.stderr, flush=True)

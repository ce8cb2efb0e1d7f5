"""The `sojourn` command. Heavy imports happen where a command needs them, so that help answers at once."""

import contextlib
import io
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from sojourn.cli import answering, looking
from sojourn.cli.encrypted import encrypted
from sojourn.cli.exit_codes import FAILED, INTERRUPTED, OK, USAGE
from sojourn.cli.failure import INTERRUPT, failure_of, wants_json
from sojourn.cli.options import Deltas, Json, Target, TaskQueue

__all__ = ["app", "main"]

app = typer.Typer(
    name="sojourn",
    help="Durable runs for tool-using agents, on Temporal.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        print(f"sojourn {version('sojourn')}")
        raise typer.Exit


@app.callback()
def sojourn(
    context: typer.Context,
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    """Durable runs for tool-using agents, on Temporal."""
    del version  # told already
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(USAGE)


@app.command()
@encrypted
def worker(
    target: Target,
    task_queue: TaskQueue = None,
    metrics_port: Annotated[
        str | None,
        typer.Option(
            "--metrics-port",
            metavar="[HOST:]PORT",
            help="Serve the Temporal SDK's metrics for Prometheus. Default: SOJOURN_METRICS_PORT, else off.",
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Log JSON, one object a line, on a terminal too.")
    ] = False,
) -> None:
    """Serve the runs of an app until SIGTERM or Ctrl-C, then drain.

    \b
    sojourn worker worker:app --task-queue sojourn
    """
    from sojourn.cli.worker_command import run_worker

    if json:
        os.environ["SOJOURN_LOG_FORMAT"] = "json"
    raise typer.Exit(run_worker(target, task_queue, metrics_port))


@app.command()
def server(
    port: Annotated[int | None, typer.Option(help="Frontend port; 7233 when free.")] = None,
    ui_port: Annotated[int | None, typer.Option(help="UI port; 8233 when free.")] = None,
    db: Annotated[Path, typer.Option(help="SQLite file that keeps everything.")] = Path(
        ".sojourn/temporal.db"
    ),
    in_memory: Annotated[bool, typer.Option("--in-memory", help="Keep nothing.")] = False,
    headless: Annotated[bool, typer.Option("--headless", help="No UI.")] = False,
    json: Json = False,
) -> None:
    """Run the embedded Temporal server in the foreground.

    \b
    sojourn server --db .sojourn/temporal.db
    """
    from sojourn.cli.server_command import run_server

    raise typer.Exit(
        run_server(port=port, ui_port=ui_port, db=db, in_memory=in_memory, headless=headless, as_json=json)
    )


@app.command()
@encrypted
def dev(
    target: Target,
    task_queue: TaskQueue = None,
    reload: Annotated[
        bool, typer.Option("--reload/--no-reload", help="Serve the app anew when a file of it changes.")
    ] = True,
    port: Annotated[
        int | None, typer.Option(help="The server's port, or where one runs already; 7233 when left out.")
    ] = None,
    json: Json = False,
) -> None:
    """Run the embedded server and a worker together, until Ctrl-C.

    \b
    sojourn dev worker:app
    """
    from sojourn.cli.dev_command import run_dev

    raise typer.Exit(run_dev(target, task_queue, reload=reload, port=port, as_json=json))


@app.command()
@encrypted
def run(
    agent: Annotated[str, typer.Argument(help="Which agent, such as ops.assistant.")],
    text: Annotated[str, typer.Argument(help="What to ask it.")],
    run_id: Annotated[
        str | None, typer.Option("--run-id", help="The run's id; made up when left out.")
    ] = None,
    session: Annotated[str, typer.Option("--session", help="The conversation it belongs to.")] = "",
    task_queue: TaskQueue = None,
    json: Json = False,
    deltas: Deltas = False,
) -> None:
    """Start a run and follow it, answering its questions.

    \b
    sojourn run ops.assistant "Why is site s-1 dark?"
    """
    from sojourn.cli.run_command import run_agent

    raise typer.Exit(
        run_agent(
            agent,
            text,
            run_id=run_id,
            session_id=session,
            task_queue=task_queue,
            json=json,
            deltas=deltas,
        )
    )


@app.command()
def catalog(
    target: Target,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Write tool_schemas.json below this folder: of all tools, and for each agent in AGENT/.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Show the tools of an app, agent by agent.

    With --json as JSON Schemas, with --out as files.

    \b
    sojourn catalog worker:app --out schemas
    """
    from sojourn.cli.catalog_command import run_catalog

    raise typer.Exit(run_catalog(target, out=out, as_json=json))


for _declared in (
    looking.watch,
    looking.show,
    looking.list_,
    answering.answer,
    answering.approve,
    answering.deny,
    answering.provide,
    answering.pause,
    answering.resume,
    answering.cancel,
    looking.export,
    looking.doctor,
):
    app.command(_declared.__name__.rstrip("_"))(encrypted(_declared))


def main() -> None:
    """Run the command and leave with its own status, whatever the interpreter does at exit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # what a terminal cannot show is no reason to fail
    try:
        code = app(prog_name="sojourn", standalone_mode=False) or OK
        failure = INTERRUPT if code == INTERRUPTED else None
    except BaseException as error:
        failure = failure_of(error)
        code = failure.exit_code
    if failure:
        failure.tell(as_json=wants_json(sys.argv[1:]))
    _leave(code)


def _leave(code: int) -> None:
    from sojourn.telemetry import flush

    flush()
    # A client-only process may abort in the SDK's threads at interpreter exit; its status is decided here.
    try:
        sys.stdout.flush()
    except OSError:
        code = code or FAILED  # not all of the output arrived
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    os._exit(code)

"""The `sojourn` command. Heavy imports happen where a command needs them, so that help answers at once."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from sojourn.cli.exit_codes import INTERRUPTED, USAGE, exit_code_of
from sojourn.errors import SojournError

__all__ = ["app", "main"]

app = typer.Typer(
    name="sojourn",
    help="Durable runs for tool-using agents, on Temporal.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Target = Annotated[str, typer.Argument(metavar="MODULE:APP", help="Where the App is, such as worker:app.")]
TaskQueue = Annotated[
    str | None, typer.Option("--task-queue", help="Default: SOJOURN_TASK_QUEUE, else sojourn.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]


@app.command()
def worker(target: Target, task_queue: TaskQueue = None) -> None:
    """Serve the runs of an app until SIGTERM or Ctrl-C, then drain."""
    from sojourn.cli.worker_command import run_worker

    raise typer.Exit(run_worker(target, task_queue))


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
    """Run the embedded Temporal server in the foreground."""
    from sojourn.cli.server_command import run_server

    raise typer.Exit(
        run_server(port=port, ui_port=ui_port, db=db, in_memory=in_memory, headless=headless, as_json=json)
    )


@app.command()
def dev(target: Target, task_queue: TaskQueue = None) -> None:
    """Run the embedded server and a worker together, until Ctrl-C."""
    from sojourn.cli.dev_command import run_dev

    raise typer.Exit(run_dev(target, task_queue))


@app.command()
def run(
    agent: Annotated[str, typer.Argument(help="Which agent, such as ops.assistant.")],
    text: Annotated[str, typer.Argument(help="What to ask it.")],
    run_id: Annotated[
        str | None, typer.Option("--run-id", help="The run's id; made up when left out.")
    ] = None,
    session: Annotated[str, typer.Option("--session", help="The conversation it belongs to.")] = "",
    task_queue: TaskQueue = None,
    json: Json = False,
) -> None:
    """Start a run and follow it to its answer, answering its questions at the prompt."""
    from sojourn.cli.run_command import run_agent

    raise typer.Exit(
        run_agent(agent, text, run_id=run_id, session_id=session, task_queue=task_queue, json=json)
    )


@app.command()
def catalog(
    target: Target,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write AGENT/tool_schemas.json below this folder.")
    ] = None,
    json: Json = False,
) -> None:
    """Show the tools of an app, agent by agent; with --json as JSON Schemas, with --out as files."""
    from sojourn.cli.catalog_command import run_catalog

    raise typer.Exit(run_catalog(target, out=out, as_json=json))


def main() -> None:
    """Run the command and leave with its own status, whatever the interpreter does at exit."""
    try:
        code = app(standalone_mode=False) or 0
    except typer.Exit as error:
        code = error.exit_code
    except KeyboardInterrupt:
        code = INTERRUPTED
    except SojournError as error:
        print(f"sojourn: {error}", file=sys.stderr)
        code = exit_code_of(error)
    except typer.Abort:
        code = INTERRUPTED
    except Exception as error:
        code = _usage_error(error)
    _leave(code)


def _usage_error(error: Exception) -> int:
    """Typer's own errors carry how to show themselves; anything else is a bug and shows its place."""
    show = getattr(error, "show", None)
    if show is None:
        raise error
    show()
    return int(getattr(error, "exit_code", USAGE))


def _leave(code: int) -> None:
    # A client-only process may abort in the SDK's threads at interpreter exit; its status is decided here.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

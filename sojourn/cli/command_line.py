"""Command line: the commands of `sojourn`, and the start and end of a command's process."""

import contextlib
import io
import os
import sys
from typing import Annotated

import typer

from sojourn.cli.commands.answer import answer
from sojourn.cli.commands.catalog import catalog
from sojourn.cli.commands.decide import approve, deny
from sojourn.cli.commands.dev import dev
from sojourn.cli.commands.doctor import doctor
from sojourn.cli.commands.export import export
from sojourn.cli.commands.list import list_
from sojourn.cli.commands.provide import provide
from sojourn.cli.commands.run import run, watch
from sojourn.cli.commands.server import server
from sojourn.cli.commands.show import show
from sojourn.cli.commands.steer import cancel, pause, resume
from sojourn.cli.commands.worker import worker
from sojourn.cli.failure import FAILED, INTERRUPT, INTERRUPTED, OK, USAGE, failure_of, wants_json

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
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Durable runs for tool-using agents, on Temporal."""
    del version  # its callback has printed it
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(USAGE)


_SERVING = (worker, server, dev)
_LOOKING = (run, catalog, watch, show, list_)
_SENDING = (answer, approve, deny, provide, pause, resume, cancel)
for _command in (*_SERVING, *_LOOKING, *_SENDING, export, doctor):
    app.command(_command.__name__.rstrip("_"))(_command)


def main() -> None:
    """Run the command and end the process with its exit code, without the interpreter's shutdown."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A character that the output's encoding lacks must not fail the command.
            stream.reconfigure(errors="replace")
    try:
        code = app(prog_name="sojourn", standalone_mode=False) or OK
        failure = INTERRUPT if code == INTERRUPTED else None
    except BaseException as error:  # noqa: BLE001 - every error is reported in a sentence
        failure = failure_of(error)
        code = failure.exit_code
    if failure:
        failure.tell(as_json=wants_json(sys.argv[1:]))
    _leave(code)


def _leave(code: int) -> None:
    from sojourn.telemetry import flush

    flush()
    # A client-only process may abort in the SDK's threads at interpreter exit, which would change the exit code.
    try:
        sys.stdout.flush()
    except OSError:
        code = code or FAILED  # not all of the output arrived
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    os._exit(code)

"""The command line: which commands there are, and how the process of one begins and ends."""

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
    del version  # told already
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(USAGE)


_SERVING = (worker, server, dev)
_LOOKING = (run, catalog, watch, show, list_)
_SENDING = (answer, approve, deny, provide, pause, resume, cancel)
for _command in (*_SERVING, *_LOOKING, *_SENDING, export, doctor):
    app.command(_command.__name__.rstrip("_"))(_command)


def main() -> None:
    """Run the command and leave with its own status, whatever the interpreter does at exit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # what a terminal cannot show is no reason to fail
    try:
        code = app(prog_name="sojourn", standalone_mode=False) or OK
        failure = INTERRUPT if code == INTERRUPTED else None
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is told in a sentence
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

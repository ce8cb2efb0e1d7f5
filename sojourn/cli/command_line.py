"""The commands of `sojourn`, and the start and end of a command's process."""

import contextlib
import io
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from sojourn.cli.commands.answer import answer, provide
from sojourn.cli.commands.bulk import bulk
from sojourn.cli.commands.catalog import catalog
from sojourn.cli.commands.chat import chat
from sojourn.cli.commands.cost import cost
from sojourn.cli.commands.decide import approve, deny
from sojourn.cli.commands.decide_each import decide
from sojourn.cli.commands.deployment import deployment
from sojourn.cli.commands.dev import dev
from sojourn.cli.commands.doctor import doctor
from sojourn.cli.commands.export import export
from sojourn.cli.commands.fork import fork, retry
from sojourn.cli.commands.init import init
from sojourn.cli.commands.keyring import keyring
from sojourn.cli.commands.keys import keys
from sojourn.cli.commands.list import list_, sessions
from sojourn.cli.commands.replay import replay
from sojourn.cli.commands.run import result, run, watch
from sojourn.cli.commands.schedule import schedule
from sojourn.cli.commands.send import close, interrupt, send, withdraw
from sojourn.cli.commands.serve import serve, worker
from sojourn.cli.commands.server import server
from sojourn.cli.commands.show import show
from sojourn.cli.commands.steer import cancel, pause, resume, set_aside
from sojourn.cli.commands.tenant import tenant
from sojourn.cli.failure import (
    FAILED,
    INTERRUPT,
    INTERRUPTED,
    OK,
    USAGE,
    CommandError,
    failure_of,
    wants_json,
)
from sojourn.values.text import is_writable

__all__ = ["app", "main"]

_GROUPS: dict[str, tuple[Callable[..., int] | typer.Typer, ...]] = {
    "Begin": (init,),
    "Start and follow": (run, watch, result),
    "Talk": (chat, send, withdraw, interrupt, close, sessions),
    "Again and again": (schedule,),
    "Answer": (answer, approve, deny, decide, provide),
    "Look": (show, list_, cost, tenant),
    "Steer": (pause, resume, cancel, set_aside, bulk),
    "Try again": (fork, retry),
    "Serve": (dev, worker, serve, server, deployment, keys, keyring, doctor),
    "Files": (export, catalog, replay),
}
"""The commands under the headings of the help, in its order."""


def _name(command: Callable[..., int] | typer.Typer) -> str:
    return (
        str(command.info.name)
        if isinstance(command, typer.Typer)
        else command.__name__.rstrip("_").replace("_", "-")
    )


class _Grouped(TyperGroup):
    """The help page, by headings: Typer's own panels need rich's markup."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        del ctx
        wide = max(map(len, self.commands))
        for heading, commands in _GROUPS.items():
            rows = [
                (
                    _name(each).ljust(wide),
                    self.commands[_name(each)].get_short_help_str(formatter.width - wide - 4),
                )
                for each in commands
            ]
            with formatter.section(heading):
                formatter.write_dl(rows)


app = typer.Typer(
    name="sojourn",
    cls=_Grouped,
    help="Durable runs for tool-using agents, on Temporal.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


_READING = (
    "catalog",
    "cost",
    "doctor",
    "export",
    "init",
    "keyring",
    "keys",
    "list",
    "replay",
    "result",
    "sessions",
    "show",
    "tenant",
    "watch",
)
"""Commands that only read. They make no spans, load no OpenTelemetry, and print nothing about it."""


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
    if context.invoked_subcommand in _READING:
        from sojourn.telemetry import leave_out

        leave_out()


for _commands in _GROUPS.values():
    for _command in _commands:
        if isinstance(_command, typer.Typer):
            app.add_typer(_command)
        else:
            app.command(_name(_command))(_command)


def main() -> None:
    """Run the command, and end the process without the interpreter's shutdown."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A character that the output's encoding lacks must not fail the command.
            stream.reconfigure(errors="replace")
    try:
        _check_arguments(sys.argv[1:])
        code = app(prog_name="sojourn", standalone_mode=False) or OK
        failure = INTERRUPT if code == INTERRUPTED else None
    except BaseException as error:  # noqa: BLE001 - every error is reported in a sentence
        failure = failure_of(error)
        code = failure.exit_code
    if failure:
        failure.tell(as_json=wants_json(sys.argv[1:]))
    _leave(code)


def _check_arguments(arguments: list[str]) -> None:
    """Refuse arguments that are not UTF-8: neither a server nor JSON can carry them."""
    for argument in arguments:
        if not is_writable(argument):
            raise CommandError(f"the argument {argument!a} is not UTF-8 text", exit_code=USAGE)


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

"""Arguments and options that several commands share."""

import functools
import inspect
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.checks import shell_options
from sojourn.checks.shell_options import connection_options
from sojourn.cli.screen.text import plain

if TYPE_CHECKING:
    from sojourn.authoring.app import App

__all__ = [
    "LAST_TURNS",
    "As",
    "By",
    "DecideAs",
    "Deltas",
    "Detach",
    "Files",
    "Json",
    "OnlyAgent",
    "OnlySession",
    "Patient",
    "Priority",
    "Role",
    "RunId",
    "SaveFiles",
    "Target",
    "TaskQueue",
    "Tenant",
    "Verbose",
    "Why",
    "add_connection_options",
    "add_encryption_options",
    "add_options",
    "connection_options",
    "load_app",
    "load_worker_app",
    "queue_for",
]

LAST_TURNS = 3
"""Turns of a conversation that are drawn whole, the last ones."""

COMPLETION_PATIENCE = 2.0
"""Longest completion of a run's id, in seconds."""

MAX_LOOKED_AT = 1_000
"""Most runs that a completion searches, the newest first."""

MAX_OFFERED = 100
"""Most run ids that a completion offers."""


def complete_runs(incomplete: str) -> list[str]:
    """Return ids of new runs that begin with `incomplete`, or none on any error."""
    import asyncio

    from sojourn.client.client import Client

    async def find() -> list[str]:
        client, run_ids = await Client.connect(), list[str]()
        async for run in client.list_runs(limit=MAX_LOOKED_AT):
            if run.run_id.startswith(incomplete):
                run_ids.append(run.run_id)
        return run_ids[:MAX_OFFERED]

    try:
        return asyncio.run(asyncio.wait_for(find(), COMPLETION_PATIENCE))
    except Exception:  # noqa: BLE001 - an error would be printed into the prompt
        return []


MAX_WARNING = 2_000
"""Longest warning, in characters."""

Target = Annotated[str, typer.Argument(metavar="MODULE:APP", help="The app, such as worker:app.")]


def _check_queue(name: str | None) -> str | None:
    from sojourn.contracts.ids import task_queue_fault

    if name and (fault := task_queue_fault(name)):
        raise typer.BadParameter(fault)
    return name


TaskQueue = Annotated[
    str | None,
    typer.Option(
        "--task-queue",
        callback=_check_queue,
        help="Default: SOJOURN_TASK_QUEUE, else the app's name, or where workers serve the agent.",
    ),
]
OnlyAgent = Annotated[str | None, typer.Option("--agent", metavar="ID", help="Only runs of this agent.")]
OnlySession = Annotated[
    str | None, typer.Option("--session", metavar="ID", help="Only runs of this session.")
]
Json = Annotated[bool, typer.Option("--json", help="For machines: JSON, one object a line.")]
Files = Annotated[
    list[Path] | None,
    typer.Option(
        "--file",
        metavar="PATH",
        exists=True,
        dir_okay=False,
        readable=True,
        help="A file to send with the message, or the first one; can be given several times.",
    ),
]
SaveFiles = Annotated[
    Path | None,
    typer.Option(
        "--save-files",
        metavar="DIR",
        file_okay=False,
        help="A folder to save the files to that the tools of the run, or of the turn, have made.",
    ),
]
Detach = Annotated[bool, typer.Option("--detach", help="Print the run's id, and do not follow it.")]
Deltas = Annotated[
    bool, typer.Option("--deltas", help="With --json: also the text of models while they write it.")
]
Verbose = Annotated[
    int,
    typer.Option(
        "--verbose",
        "-v",
        count=True,
        show_default=False,
        metavar="",
        help="-v: the payload and the result of each call; -vv: everything, such as hints and causes.",
    ),
]
Patient = Annotated[
    bool,
    typer.Option("--patient", help="Stay while the run waits for an answer or for results from outside."),
]
Priority = Annotated[
    int | None,
    typer.Option(
        "--priority",
        metavar="N",
        min=1,
        max=5,
        help="Its place among work that waits for a worker: 1, the first, to 5. Default: 3.",
    ),
]
RunId = Annotated[
    str, typer.Argument(metavar="RUN", help="The run's id.", autocompletion=complete_runs, show_default=False)
]
Why = Annotated[str, typer.Argument(metavar="WHY", help="The reason, for the record.", show_default=False)]
Tenant = Annotated[str | None, typer.Option("--tenant", metavar="TENANT", help="Only those of this tenant.")]
By = Annotated[
    str | None,
    typer.Option("--by", metavar="NAME", help="Who you are, for the record; default: your user name."),
]
As = Annotated[
    str | None,
    typer.Option(
        "--as",
        metavar="SUBJECT",
        help="Answer as this principal of the run's tenant, who then approves no call of the turn that takes four eyes; recorded, and not proved.",
    ),
]
DecideAs = Annotated[
    str | None,
    typer.Option(
        "--as",
        metavar="SUBJECT",
        help="Decide as this principal, if a tool or a policy restricts who may decide. Recorded without a proof.",
    ),
]
Role = Annotated[
    list[str] | None,
    typer.Option("--role", metavar="ROLE", help="A role of --as. Can be given several times."),
]
Codec = Annotated[
    str | None,
    typer.Option(
        "--codec",
        metavar="MODULE:CODEC",
        help="The codec that encrypts payloads. Default: SOJOURN_CODEC, else none.",
    ),
]
EncryptedOnly = Annotated[
    bool,
    typer.Option(
        "--encrypted-only",
        help="Refuse messages in clear text. Default: SOJOURN_ENCRYPTED_ONLY, else off.",
    ),
]

Address = Annotated[
    str | None,
    typer.Option("--address", metavar="HOST:PORT", help="The Temporal server. Default: TEMPORAL_ADDRESS."),
]
Namespace = Annotated[
    str | None,
    typer.Option("--namespace", metavar="NAME", help="The namespace. Default: TEMPORAL_NAMESPACE."),
]

StorageApp = Annotated[
    str | None,
    typer.Option(
        "--app",
        metavar="MODULE:APP",
        help="The app whose storage has the values that are too large for a history. Default: SOJOURN_APP.",
    ),
]


def add_encryption_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add `--codec` and `--encrypted-only`, which other processes get as variables."""

    def apply(codec: str | None = None, encrypted_only: bool = False) -> None:
        shell_options.CODEC.clear()
        if codec:
            os.environ["SOJOURN_CODEC"] = codec
            shell_options.CODEC.append(f" --codec {shlex.quote(codec)}")
        if encrypted_only:
            os.environ["SOJOURN_ENCRYPTED_ONLY"] = "1"
            shell_options.CODEC.append(" --encrypted-only")

    return add_options(command, apply, {"codec": (Codec, None), "encrypted_only": (EncryptedOnly, False)})


def add_connection_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options of the connection, which set environment variables.

    The task queue is not repeated in printed command lines, because a run's id is enough.
    """

    def apply(
        address: str | None = None,
        namespace: str | None = None,
        task_queue: str | None = None,
        storage_app: str | None = None,
    ) -> None:
        shell_options.SERVER.clear()
        shell_options.APP.clear()
        if address:
            os.environ["TEMPORAL_ADDRESS"] = address
            shell_options.SERVER.append(f" --address {shlex.quote(address)}")
        if namespace:
            os.environ["TEMPORAL_NAMESPACE"] = namespace
            shell_options.SERVER.append(f" --namespace {shlex.quote(namespace)}")
        if task_queue:
            os.environ["SOJOURN_TASK_QUEUE"] = task_queue
        if storage_app:
            os.environ["SOJOURN_APP"] = storage_app
            shell_options.APP.append(f" --app {shlex.quote(storage_app)}")

    added = {"address": (Address, None), "namespace": (Namespace, None), "task_queue": (TaskQueue, None)}
    if "target" not in inspect.signature(command).parameters:
        added["storage_app"] = (StorageApp, None)
    return add_options(add_encryption_options(command), apply, added)


def add_options(
    command: Callable[..., int], apply: Callable[..., None], added: dict[str, tuple[Any, Any]]
) -> Callable[..., int]:
    """Return a command with more options, whose values `apply` takes before it."""

    @functools.wraps(command)
    def with_options(**options: Any) -> int:
        apply(**{name: options.pop(name) for name in added if name in options})
        return command(**options)

    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [each.replace(kind=kind) for each in inspect.signature(command).parameters.values()]
    for name, (hint, default) in added.items():
        parameters.append(inspect.Parameter(name, kind, default=default, annotation=hint))
    with_options.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportAttributeAccessIssue] - what Typer reads
    hints = {name: hint for name, (hint, _) in added.items()}
    with_options.__annotations__ = {**command.__annotations__, **hints}
    return with_options


def load_app(target: str) -> "App":
    """Import the app at `module:name`, from the current folder or installed."""
    from sojourn.authoring.app import App
    from sojourn.errors import DefinitionError
    from sojourn.target import load_target

    found = load_target(target)
    if not isinstance(found, App):
        module, _, name = target.partition(":")
        fault = (
            f"{name!r} is not in module {module!r}; {_apps_in(module, App)}"
            if found is None
            else f"{name!r} is of type {type(found).__name__}, not an App"
        )
        raise DefinitionError(f"{target}: {fault}")
    return found


def _apps_in(module: str, kind: "type[App]") -> str:
    found = [name for name, value in vars(sys.modules[module]).items() if isinstance(value, kind)]
    named = " or ".join(f"{module}:{name}" for name in found[:5])
    return f"it has {named}" if found else "it has no App"


def load_worker_app(target: str) -> "App":
    """Load an app to serve its runs, and print which of its models cannot be made."""
    from sojourn.checks.application import models_of

    app = load_app(target)
    named, wrong = models_of(app)
    for model, reason in wrong.items():
        line = f"{', '.join(named[model])} by {model} cannot run yet: {reason}"
        print(f"sojourn: {plain(line, MAX_WARNING)}", file=sys.stderr, flush=True)
    return app


def queue_for(app: "App", target: str) -> str:
    """Return the task queue of the settings, the app's name, or its target."""
    from sojourn.connection import settings

    return settings.task_queue() or app.name or target

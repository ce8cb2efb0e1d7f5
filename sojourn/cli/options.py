"""Arguments and options that several commands share."""

import functools
import inspect
import os
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from sojourn.authoring.app import App

__all__ = [
    "By",
    "Deltas",
    "Json",
    "RunId",
    "Target",
    "TaskQueue",
    "Why",
    "encrypted",
    "encryption_options",
    "load_app",
]

COMPLETION_PATIENCE = 2.0
"""Longest completion of a run's id, in seconds."""

MAX_LOOKED_AT = 1_000
"""Most runs that a completion searches, the newest first."""

MAX_OFFERED = 100
"""Most run ids that a completion offers."""


def complete_runs(incomplete: str) -> list[str]:
    """Return ids of the newest runs that begin with `incomplete`; none on any error, or after `COMPLETION_PATIENCE`."""
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


Target = Annotated[str, typer.Argument(metavar="MODULE:APP", help="The app, such as worker:app.")]
TaskQueue = Annotated[
    str | None, typer.Option("--task-queue", help="Default: SOJOURN_TASK_QUEUE, else sojourn.")
]
Json = Annotated[bool, typer.Option("--json", help="For machines: JSON, one object a line.")]
Deltas = Annotated[
    bool, typer.Option("--deltas", help="With --json: also the text of models while they write it.")
]
RunId = Annotated[
    str, typer.Argument(metavar="RUN", help="The run's id.", autocompletion=complete_runs, show_default=False)
]
Why = Annotated[str, typer.Argument(metavar="WHY", help="The reason, for the record.", show_default=False)]
By = Annotated[
    str | None,
    typer.Option("--by", metavar="NAME", help="Who you are, for the record; default: your user name."),
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

_given: list[str] = []
"""The options of `encrypted` that were given, to repeat them in printed command lines."""


def encrypted(command: Callable[..., int]) -> Callable[..., int]:
    """Add `--codec` and `--encrypted-only` to a command that reads or writes payloads.

    The options set environment variables, so that workers in other processes get them too.
    """

    @functools.wraps(command)
    def with_settings(codec: str | None = None, encrypted_only: bool = False, **options: Any) -> int:
        _given.clear()
        if codec:
            os.environ["SOJOURN_CODEC"] = codec
            _given.append(f" --codec {shlex.quote(codec)}")
        if encrypted_only:
            os.environ["SOJOURN_ENCRYPTED_ONLY"] = "1"
            _given.append(" --encrypted-only")
        return command(**options)

    added = {"codec": (Codec, None), "encrypted_only": (EncryptedOnly, False)}
    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [each.replace(kind=kind) for each in inspect.signature(command).parameters.values()]
    for name, (hint, default) in added.items():
        parameters.append(inspect.Parameter(name, kind, default=default, annotation=hint))
    with_settings.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportAttributeAccessIssue] - what Typer reads
    hints = {name: hint for name, (hint, _) in added.items()}
    with_settings.__annotations__ = {**command.__annotations__, **hints}
    return with_settings


def encryption_options() -> str:
    """Return the encryption options that were given, to append to a printed command line; empty without any."""
    return "".join(_given)


def load_app(target: str) -> "App":
    """Import the app at `module:name`, from the current folder or installed.

    Raises:
        DefinitionError: There is no such module or name, it is not an App, or its declaration is invalid.
    """
    from sojourn.authoring.app import App
    from sojourn.errors import DefinitionError
    from sojourn.target import load_target

    found = load_target(target)
    if not isinstance(found, App):
        module, _, name = target.partition(":")
        fault = (
            f"{name!r} is not in module {module!r}; name the App that is there"
            if found is None
            else f"{name!r} is of type {type(found).__name__}, not an App"
        )
        raise DefinitionError(f"{target}: {fault}")
    return found

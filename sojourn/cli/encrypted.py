"""The options of every command that reads or writes payloads: which codec, and whether clear text is refused.

They set what the settings are read from, so that workers in processes of their own get them too.
"""

import functools
import inspect
import os
import shlex
from collections.abc import Callable
from typing import Annotated, Any

import typer

__all__ = ["encrypted", "given_again"]

_given: list[str] = []
"""The options as they were given, for the command lines that are printed."""

Codec = Annotated[
    str | None,
    typer.Option(
        "--codec",
        metavar="MODULE:CODEC",
        help="What encrypts payloads. Default: SOJOURN_CODEC, else nothing.",
    ),
]
EncryptedOnly = Annotated[
    bool,
    typer.Option(
        "--encrypted-only",
        help="Refuse what others send in clear text. Default: SOJOURN_ENCRYPTED_ONLY, else off.",
    ),
]


def encrypted(command: Callable[..., None]) -> Callable[..., None]:
    """The command with `--codec` and `--encrypted-only`."""

    @functools.wraps(command)
    def with_settings(codec: str | None = None, encrypted_only: bool = False, **options: Any) -> None:
        _given.clear()
        if codec:
            os.environ["SOJOURN_CODEC"] = codec
            _given.append(f" --codec {shlex.quote(codec)}")
        if encrypted_only:
            os.environ["SOJOURN_ENCRYPTED_ONLY"] = "1"
            _given.append(" --encrypted-only")
        command(**options)

    kind = inspect.Parameter.KEYWORD_ONLY
    more = {"codec": (Codec, None), "encrypted_only": (EncryptedOnly, False)}
    own = [each.replace(kind=kind) for each in inspect.signature(command).parameters.values()]
    added = [
        inspect.Parameter(name, kind, default=default, annotation=hint)
        for name, (hint, default) in more.items()
    ]
    with_settings.__signature__ = inspect.Signature([*own, *added])  # pyright: ignore[reportAttributeAccessIssue] - what Typer reads
    with_settings.__annotations__ = {
        **command.__annotations__,
        **{name: hint for name, (hint, _) in more.items()},
    }
    return with_settings


def given_again() -> str:
    """What a printed command line needs so that the next command reads the same payloads; empty where nothing was given."""
    return "".join(_given)

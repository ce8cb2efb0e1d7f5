"""Exit codes of every command, and the error that ends one with a code of its own."""

from typing import Any

from sojourn.errors import (
    DefinitionError,
    InvalidInput,
    RunCanceled,
    ServerNotFound,
    ServerUnavailable,
    SojournError,
)

__all__ = [
    "CANCELED",
    "FAILED",
    "INTERRUPTED",
    "NO_SERVER",
    "OK",
    "USAGE",
    "WAITING",
    "CommandError",
    "exit_code_of",
]

OK = 0
FAILED = 1
"""The run failed, or what was asked for was not found."""
USAGE = 2
"""Bad usage, or an app that is declared wrongly."""
NO_SERVER = 3
WAITING = 4
"""The run waits for a person, and nobody is here to answer."""
CANCELED = 5
INTERRUPTED = 130


class CommandError(SojournError):
    """A command could not do what was asked; the text is one sentence with a next step.

    Args:
        message: For the person.
        exit_code: The command's.
        more: What `--json` tells beside it.
    """

    def __init__(self, message: str, *, exit_code: int = FAILED, **more: Any) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.more = more


def exit_code_of(error: SojournError) -> int:
    """The exit code that says what kind of error it was."""
    if isinstance(error, CommandError):
        return error.exit_code
    if isinstance(error, (DefinitionError, InvalidInput)):
        return USAGE
    if isinstance(error, (ServerUnavailable, ServerNotFound)):
        return NO_SERVER
    return CANCELED if isinstance(error, RunCanceled) else FAILED

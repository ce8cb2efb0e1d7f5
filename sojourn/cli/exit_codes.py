"""Exit codes of every command."""

from sojourn.errors import (
    DefinitionError,
    InvalidInput,
    RunCanceled,
    ServerNotFound,
    ServerUnavailable,
    SojournError,
)

__all__ = ["CANCELED", "FAILED", "INTERRUPTED", "NO_SERVER", "OK", "USAGE", "WAITING", "exit_code_of"]

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


def exit_code_of(error: SojournError) -> int:
    """The exit code that says what kind of error it was."""
    if isinstance(error, (DefinitionError, InvalidInput)):
        return USAGE
    if isinstance(error, (ServerUnavailable, ServerNotFound)):
        return NO_SERVER
    return CANCELED if isinstance(error, RunCanceled) else FAILED

"""Report a failed command by an exit code, and a sentence or JSON."""

import contextlib
import json
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from sojourn.cli.screen.text import plain
from sojourn.contracts import safe_exceptions
from sojourn.error_kinds import (
    CANCELED,
    FAILED,
    INTERRUPTED,
    NO_SERVER,
    OK,
    USAGE,
    WAITING,
    details_of,
    kind_of,
)
from sojourn.errors import SojournError

if TYPE_CHECKING:
    from temporalio.service import RPCError

__all__ = [
    "CANCELED",
    "FAILED",
    "INTERRUPT",
    "INTERRUPTED",
    "NO_SERVER",
    "OK",
    "USAGE",
    "WAITING",
    "CommandError",
    "Failure",
    "Interrupted",
    "failure_of",
    "wants_json",
]

_NAMES = {USAGE: "Usage", WAITING: "Waiting"}
"""The names of a `CommandError`, for machines, by its exit code."""

MAX_LINE = 2_000
MAX_LINKS = 50


class CommandError(SojournError):
    """A command failed."""

    def __init__(self, message: str, *, exit_code: int = FAILED, **more: Any) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.more = more


class Interrupted(CommandError):  # noqa: N818 - machines read this name as `error`
    """Ctrl-C ended a command whose message is more than `interrupted`."""

    def __init__(self, message: str, **more: Any) -> None:
        super().__init__(message, exit_code=INTERRUPTED, **more)


@dataclass(frozen=True, slots=True)
class Failure:
    exit_code: int
    name: str = ""
    """The error's type, for machines."""
    message: str = ""
    """Nothing is printed if it is empty."""
    more: dict[str, Any] = field(default_factory=dict[str, Any])

    def tell(self, *, as_json: bool) -> None:
        """Print the report on standard error, if that is not closed."""
        if not self.message:
            return
        if as_json:
            report = {"error": self.name, "message": self.message, "exit_code": self.exit_code, **self.more}
            text = json.dumps(report, default=str)
        else:
            lines = [plain(line, MAX_LINE) for line in (*self.message.splitlines(), *self._faults())]
            text = "sojourn: " + "\n".join(lines)
        with contextlib.suppress(OSError):
            print(text, file=sys.stderr, flush=True)

    def _faults(self) -> list[str]:
        """Return a line for each fault of an answer, if it has several.

        The message names the first one alone.
        """
        faults: list[dict[str, str]] = self.more.get("faults") or []
        return (
            [f"  {each['field'].removeprefix('/')} {each['message']}" for each in faults]
            if len(faults) > 1
            else []
        )


INTERRUPT = Failure(INTERRUPTED, "Interrupted", "interrupted")


def wants_json(arguments: list[str]) -> bool:
    """Return whether a command's unparsed arguments contain `--json`."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in options


def failure_of(error: BaseException) -> Failure:
    """Return the report of an error, without a traceback."""
    error = _unwrap(error)
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPT
    if isinstance(error, SystemExit):
        return Failure(error.code if isinstance(error.code, int) else FAILED)
    if isinstance(error, SojournError):
        if isinstance(error, CommandError):
            code, more = error.exit_code, error.more
        else:
            code, more = (kind.exit_code if (kind := kind_of(error)) else FAILED), _more_of(error)
        name = _NAMES.get(code) if type(error) is CommandError else None
        more = {"code": (name or "failed").lower(), **more} if isinstance(error, CommandError) else more
        message = "\n".join([str(error), *getattr(error, "__notes__", ())])
        return Failure(code, name or type(error).__name__, message, more)
    if isinstance(error, BrokenPipeError):
        return Failure(FAILED)  # the reader of the pipe, such as `head`, has closed it
    if usage := getattr(error, "format_message", None):
        return Failure(USAGE, "Usage", _usage(error, usage()))
    if isinstance(error, OSError):
        place = f": {error.filename}" if error.filename else ""
        return Failure(FAILED, type(error).__name__, f"{error.strerror or error}{place}")
    if _is_interrupt(error):
        return INTERRUPT
    message = f"this should not happen: {type(error).__name__}: {error}; please report it, with the command"
    return Failure(FAILED, type(error).__name__, message)


def _more_of(error: SojournError) -> dict[str, Any]:
    code = getattr(error, "code", None) or ((kind := kind_of(error)) and kind.code)
    faults = getattr(error, "faults", None)
    return details_of(error) | ({"code": code} if code else {}) | ({"faults": faults} if faults else {})


def _is_interrupt(error: BaseException) -> bool:
    """Return whether Ctrl-C caused an error, also one of a compiled library."""
    links = safe_exceptions.chain(error, MAX_LINKS)
    return any(isinstance(link, KeyboardInterrupt) for link in links) or "KeyboardInterrupt" in str(error)


def _unwrap(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    service = sys.modules.get("temporalio.service")
    if service is not None and isinstance(error, service.RPCError):
        from sojourn.connection.rpc_errors import translate_error

        return translate_error(cast("RPCError", error), None)
    return error  # pyright: ignore[reportUnknownVariableType]


def _usage(error: BaseException, message: str) -> str:
    context: Any = getattr(error, "ctx", None)
    help_line = f"{context.command_path} --help" if context else "sojourn --help"
    said = message.replace("Value error, ", "").strip().rstrip(".")  # Pydantic's words
    return f"{said} See `{help_line}`" if said.endswith("?") else f"{said}; see `{help_line}`"

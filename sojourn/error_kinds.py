"""The meaning of each error to a caller: code, HTTP status, exit code, next step.

This is the only such table: the API, its protocols, the console and the command line only format its
entries.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sojourn.errors import (
    AlreadyAnswered,
    ApprovalVoid,
    ArtifactNotFound,
    AwaitClosed,
    DefinitionError,
    InvalidInput,
    MissingRole,
    NotApprover,
    NotPaused,
    NoWorker,
    OtherKind,
    RunAlreadyExists,
    RunCanceled,
    RunEnded,
    RunFailed,
    RunNotFound,
    RunUnreadable,
    ServerNotFound,
    ServerUnavailable,
    SessionBusy,
    SojournError,
    StaleDigest,
    StorageUnavailable,
    TenantQuotaExceeded,
    UnknownWait,
)

__all__ = [
    "CANCELED",
    "FAILED",
    "INTERRUPTED",
    "NO_SERVER",
    "OK",
    "USAGE",
    "WAITING",
    "ErrorKind",
    "details_of",
    "kind_of",
]

OK = 0
FAILED = 1
"""The run failed, or the request's target is missing, impossible or not healthy."""
USAGE = 2
"""Bad usage, or an app that is declared wrongly."""
NO_SERVER = 3
WAITING = 4
"""The run waits for an answer or for results from outside, and none came at this terminal."""
CANCELED = 5
INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class ErrorKind:
    code: str
    """For programs."""
    status: int
    """The HTTP status."""
    then: str
    """The next step, for a caller of the HTTP service."""
    exit_code: int = FAILED
    """The exit code of a command."""


_INVALID = "Correct what the detail names, and send the request again."
_FAILED = ErrorKind("run_failed", 409, "GET /v1/runs/{run_id}/output has the failure and its causes.")

_KINDS: Mapping[type[SojournError], ErrorKind] = {
    DefinitionError: ErrorKind(
        "bad_definition", 500, "Correct the app or the settings of the service.", USAGE
    ),
    RunNotFound: ErrorKind("run_not_found", 404, "GET /v1/runs lists the runs that you may see."),
    RunAlreadyExists: ErrorKind(
        "run_already_exists",
        409,
        "Choose another run_id; or send it as Idempotency-Key, to get the run that the same request has started.",
    ),
    ArtifactNotFound: ErrorKind(
        "artifact_not_found", 404, "The references are in the run's events and output."
    ),
    RunFailed: _FAILED,
    RunCanceled: replace(_FAILED, exit_code=CANCELED),
    AwaitClosed: ErrorKind(
        "await_closed", 409, "GET /v1/runs/{run_id} has what the run does now, and its open waits."
    ),
    AlreadyAnswered: ErrorKind(
        "already_answered",
        409,
        "The first answer counts, and this one changed nothing. GET /v1/runs/{run_id} has the run's open waits.",
    ),
    UnknownWait: ErrorKind(
        "unknown_wait", 409, "GET /v1/runs/{run_id} has the run's open waits; name one by its `await_id`."
    ),
    NotPaused: ErrorKind("not_paused", 409, "Nothing is to be done: the run goes on by itself."),
    RunEnded: ErrorKind(
        "run_ended", 409, "GET /v1/runs/{run_id}/output has its answer. Start another run or session."
    ),
    ApprovalVoid: ErrorKind(
        "approval_void", 409, "Look at the call as it is now, and decide again with its digest."
    ),
    MissingRole: ErrorKind("forbidden", 403, "Ask the operator of the service for that role."),
    NotApprover: ErrorKind("forbidden", 403, "GET /v1/waits says which roles may decide on each call."),
    InvalidInput: ErrorKind("invalid_input", 422, _INVALID, USAGE),
    StaleDigest: ErrorKind(
        "stale_digest", 409, "GET /v1/waits has the call as it is now; decide on that one.", USAGE
    ),
    NoWorker: ErrorKind("no_worker", 503, "Start a worker of the agent, and send the request again."),
    RunUnreadable: ErrorKind(
        "run_unreadable", 502, "Give the service the codec and the storage of the run's workers."
    ),
    SessionBusy: ErrorKind(
        "session_busy",
        429,
        "Send it again, with the same message_id, once a turn or the calls under way have ended.",
    ),
    TenantQuotaExceeded: ErrorKind(
        "tenant_quota_exceeded",
        429,
        "Send it again after the seconds of Retry-After, once other runs have ended.",
    ),
    StorageUnavailable: ErrorKind(
        "storage_unavailable", 503, "Send the request again. The log of the service has the reason."
    ),
    ServerUnavailable: ErrorKind(
        "server_unavailable",
        503,
        "Send the request again once the Temporal server answers.",
        NO_SERVER,
    ),
    ServerNotFound: ErrorKind("server_unavailable", 503, "Install the `temporal` command.", NO_SERVER),
}
"""By class; a subclass that is not here has the kind of the class above it. An error of another package has its own as `error_kind`."""


def kind_of(error: BaseException) -> ErrorKind | None:
    """Return an error's meaning to a caller.

    None for an error that no caller can do anything about.
    """
    found = getattr(error, "error_kind", None) or next(
        (_KINDS[each] for each in type(error).__mro__ if each in _KINDS), None
    )
    if not isinstance(found, ErrorKind):
        return None
    then = getattr(error, "then", "")
    if isinstance(error, NotApprover):
        then = error.deciders and f"The call is decided by {error.deciders}."
    elif isinstance(error, MissingRole):
        then = f"Ask the operator of the service for the role {error.role}."
    elif isinstance(error, OtherKind):
        from sojourn.contracts.awaits import record_of  # noqa: PLC0415 - pydantic: `sojourn --help` is quick

        record = record_of(error.kind)
        then = (
            f"POST /v1/runs/{{run_id}}/{record.answer_path} answers it."
            if record
            else "A newer version of the service answers it."
        )
    return replace(found, then=then) if then else found


def details_of(error: BaseException) -> dict[str, Any]:
    """Return the run, the wait, its answer, a tool's changes, a cursor and a quota."""
    names = ("run_id", "await_id", "changes", "after", "quota", "limit")
    found = {name: getattr(error, name, None) for name in names}
    if isinstance(error, AlreadyAnswered):
        at = error.at and error.at.isoformat()
        found |= {"outcome": error.outcome, "answered_by": error.by, "answered_at": at}
    return {name: value for name, value in found.items() if value}

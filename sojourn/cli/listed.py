"""The statuses and the JSON of runs, for all commands that list runs."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

from sojourn.cli.failure import USAGE, CommandError
from sojourn.cli.run_table import duration_of
from sojourn.cli.screen.text import plain

if TYPE_CHECKING:
    from sojourn.checks.stuck import Stuck
    from sojourn.contracts.run import RunStatus

__all__ = ["PLAIN_WIDTH", "check_status", "to_json"]

STATUSES = (
    "running",
    "waiting",
    "paused",
    "idle",
    "completed",
    "failed",
    "canceled",
    "terminated",
    "timed_out",
)

PLAIN_WIDTH = 1_000
"""Columns of an output that is not a terminal, so that nothing is cut or wrapped."""


def check_status(status: str | None) -> None:
    """Check the argument of `--status`.

    Raises:
        CommandError: It is no status.
    """
    if status is not None and status not in STATUSES:
        raise CommandError(
            f"{plain(status)!r} is not a status; use one of {', '.join(STATUSES)}", exit_code=USAGE
        )


def to_json(run: "RunStatus", stuck: "Stuck | None" = None) -> dict[str, Any]:
    """Return the object that `--json` prints for a run.

    Its fields must not change.
    """
    duration = duration_of(run)
    fields: dict[str, Any] = {
        "run_id": run.run_id,
        "agent_id": run.agent_id,
        "session_id": run.session_id,
        "status": run.status,
        "awaiting": run.awaiting if run.closed_at is None else "",
        "forked_from": run.forked_from.run_id if run.forked_from else None,
        "started_at": _iso(run.started_at),
        "closed_at": _iso(run.closed_at),
        "duration_seconds": round(duration.total_seconds(), 3) if duration else None,
    }
    if stuck:
        fields["stuck"] = {**stuck, "since": _iso(stuck["since"])}
    return fields


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None

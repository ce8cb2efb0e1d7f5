"""`sojourn list`: the runs of the namespace, newest first, and which of them wait or are stuck."""

import json
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sojourn.cli.connected import with_client
from sojourn.cli.exit_codes import OK, USAGE, CommandError
from sojourn.cli.plain import plain
from sojourn.cli.stuck import Stuck, stuck_runs
from sojourn.cli.times import local, took
from sojourn.client.client import Client
from sojourn.contracts.run import RunStatus
from sojourn.errors import InvalidInput

__all__ = ["STATUSES", "run_list"]

STATUSES = ("running", "waiting", "paused", "completed", "failed", "canceled", "terminated", "timed_out")

MAX_LOOKED_AT = 1_000
"""Open runs that `--stuck` asks about."""

PLAIN_WIDTH = 1_000
"""Columns where the output is no terminal: nothing is cut or wrapped for width."""

_COLORS = {
    "waiting": "yellow",
    "paused": "yellow",
    "completed": "green",
    "canceled": "dim",
    "running": "cyan",
}


def run_list(
    *,
    agent_id: str | None,
    session_id: str | None,
    status: str | None,
    waiting: bool,
    stuck: bool,
    limit: int,
    as_json: bool,
) -> int:
    """Print a table, or one object a run; returns the exit code."""
    if status is not None and status not in STATUSES:
        raise CommandError(
            f"there is no status {plain(status)!r}; it is one of {', '.join(STATUSES)}", exit_code=USAGE
        )
    if sum((status is not None, waiting, stuck)) > 1:
        raise CommandError("give one of --status, --waiting and --stuck", exit_code=USAGE)

    async def main(client: Client) -> int:
        wanted = "waiting" if waiting else "running" if stuck else status
        listed = client.list_runs(
            agent_id=agent_id,
            session_id=session_id,
            status=wanted,
            limit=MAX_LOOKED_AT + 1 if stuck else limit,
        )
        try:
            runs = [run async for run in listed]
        except InvalidInput as error:  # not the person's doing
            raise CommandError(str(error)) from error
        why: dict[str, Stuck] = {}
        if stuck:
            if len(runs) > MAX_LOOKED_AT:
                print(
                    f"sojourn: looked at the newest {MAX_LOOKED_AT:,} open runs only; narrow it with --agent or --session",
                    file=sys.stderr,
                )
            why = await stuck_runs(client, [run.run_id for run in runs[:MAX_LOOKED_AT]])
            runs = [run for run in runs if run.run_id in why][:limit]
        runs.sort(key=lambda run: run.started_at or datetime.min.replace(tzinfo=UTC), reverse=True)
        if as_json:
            for run in runs:
                print(json.dumps(_told(run, why.get(run.run_id)), ensure_ascii=False))
        else:
            _show(runs, why)
        return OK

    return with_client(main)


def _duration(run: RunStatus) -> timedelta | None:
    return (run.closed_at or datetime.now(UTC)) - run.started_at if run.started_at else None


def _told(run: RunStatus, stuck: Stuck | None) -> dict[str, Any]:
    """A run for machines; these fields stay."""
    duration = _duration(run)
    told: dict[str, Any] = {
        "run_id": run.run_id,
        "agent_id": run.agent_id,
        "session_id": run.session_id,
        "status": run.status,
        "awaiting": run.awaiting if run.closed_at is None else "",
        "started_at": _iso(run.started_at),
        "closed_at": _iso(run.closed_at),
        "duration_seconds": round(duration.total_seconds(), 3) if duration else None,
    }
    if stuck:
        told["stuck"] = {**stuck, "since": _iso(stuck["since"])}
    return told


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def _show(runs: list[RunStatus], why: dict[str, Stuck]) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    if not runs:
        console.print(Text("no such runs", style="dim"))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("RUN", overflow="fold")
    table.add_column("AGENT", overflow="fold")
    table.add_column("STATUS", no_wrap=True)
    table.add_column("STUCK BECAUSE" if why else "WAITS FOR", overflow="fold")
    table.add_column("STARTED", no_wrap=True)
    table.add_column("TOOK", no_wrap=True)
    for run in runs:
        stuck = why.get(run.run_id)
        is_open = run.closed_at is None
        about = _stuck_line(stuck) if stuck else plain(run.awaiting) if is_open else ""
        table.add_row(
            Text(plain(run.run_id, 400)),
            Text(plain(run.agent_id)),
            Text("stuck" if stuck else run.status, style="red" if stuck else _COLORS.get(run.status, "red")),
            Text(about),
            Text(local(run.started_at)),
            Text(took(_duration(run))),
        )
    console.print(table)


def _stuck_line(stuck: Stuck) -> str:
    since = f" since {local(stuck['since'])}" if stuck["since"] else ""
    reason = plain(stuck["reason"] or "the history does not say", 300)
    return f"attempt {stuck['attempt']}{since}: {reason} → {plain(stuck['next'], 500)}"

"""`sojourn list`: the runs of the namespace, newest first, and which of them wait or are stuck."""

import json
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli.client import with_client
from sojourn.cli.failure import OK, USAGE, CommandError
from sojourn.cli.options import Json, encrypted
from sojourn.cli.screen.text import local, plain, took

if TYPE_CHECKING:
    from sojourn.cli.stuck import Stuck
    from sojourn.client.client import Client
    from sojourn.contracts.run import RunStatus

__all__ = ["list_"]

STATUSES = ("running", "waiting", "paused", "completed", "failed", "canceled", "terminated", "timed_out")

MAX_LOOKED_AT = 1_000
"""Most open runs that `--stuck` checks, the newest first."""

PLAIN_WIDTH = 1_000
"""Columns of an output that is not a terminal, so that nothing is cut or wrapped."""

_COLORS = {
    "waiting": "yellow",
    "paused": "yellow",
    "completed": "green",
    "canceled": "dim",
    "running": "cyan",
}


@encrypted
def list_(
    agent_id: Annotated[
        str | None, typer.Option("--agent", metavar="ID", help="Only runs of this agent.")
    ] = None,
    session_id: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="Only runs of this session.")
    ] = None,
    status: Annotated[
        str | None,
        typer.Option(
            "--status",
            help="running (includes waiting and paused), waiting, paused, completed, failed, canceled, terminated or timed_out.",
        ),
    ] = None,
    waiting: Annotated[bool, typer.Option("--waiting", help="Only runs that wait for somebody.")] = False,
    stuck: Annotated[
        bool,
        typer.Option(
            "--stuck", help="Only runs that fail again and again or that no worker serves, with the reason."
        ),
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=10_000, help="The maximum number of runs.")
    ] = 50,
    as_json: Json = False,
) -> int:
    """List runs, newest first.

    \b
    sojourn list --waiting
    sojourn list --agent ops.assistant --status failed --json
    """
    if status is not None and status not in STATUSES:
        raise CommandError(
            f"{plain(status)!r} is not a status; use one of {', '.join(STATUSES)}", exit_code=USAGE
        )
    if sum((status is not None, waiting, stuck)) > 1:
        raise CommandError("give only one of --status, --waiting and --stuck", exit_code=USAGE)
    filters = {"agent_id": agent_id, "session_id": session_id}
    filters["status"] = "waiting" if waiting else "running" if stuck else status

    async def main(client: "Client") -> int:
        runs = await _find(client, filters, MAX_LOOKED_AT + 1 if stuck else limit)
        why: dict[str, Stuck] = {}
        if stuck:
            why = await _find_stuck(client, runs)
            runs = [run for run in runs if run.run_id in why][:limit]
        runs.sort(key=lambda run: run.started_at or datetime.min.replace(tzinfo=UTC), reverse=True)
        if as_json:
            for run in runs:
                print(json.dumps(_to_json(run, why.get(run.run_id)), ensure_ascii=False))
        else:
            _show(runs, why)
        return OK

    return with_client(main)


async def _find(client: "Client", filters: dict[str, Any], limit: int) -> "list[RunStatus]":
    from sojourn.errors import InvalidInput

    try:
        return [run async for run in client.list_runs(**filters, limit=limit)]
    except InvalidInput as error:  # the search attributes are missing, which is not bad usage
        raise CommandError(str(error)) from error


async def _find_stuck(client: "Client", runs: "list[RunStatus]") -> "dict[str, Stuck]":
    from sojourn.cli.stuck import stuck_runs

    if len(runs) > MAX_LOOKED_AT:
        print(
            f"sojourn: checked only the newest {MAX_LOOKED_AT:,} open runs; to check others, add --agent or --session",
            file=sys.stderr,
        )
    return await stuck_runs(client, [run.run_id for run in runs[:MAX_LOOKED_AT]])


def _duration(run: "RunStatus") -> timedelta | None:
    return (run.closed_at or datetime.now(UTC)) - run.started_at if run.started_at else None


def _to_json(run: "RunStatus", stuck: "Stuck | None") -> dict[str, Any]:
    """Return the object that `--json` prints for a run; its fields must stay."""
    duration = _duration(run)
    fields: dict[str, Any] = {
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
        fields["stuck"] = {**stuck, "since": _iso(stuck["since"])}
    return fields


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def _show(runs: "list[RunStatus]", why: "dict[str, Stuck]") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    if not runs:
        console.print(Text("no runs found", style="dim"))
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


def _stuck_line(stuck: "Stuck") -> str:
    since = f" since {local(stuck['since'])}" if stuck["since"] else ""
    reason = plain(stuck["reason"] or "the history does not say", 300)
    return f"attempt {stuck['attempt']}{since}: {reason} → {plain(stuck['next'], 500)}"

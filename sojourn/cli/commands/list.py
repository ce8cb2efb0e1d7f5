"""`sojourn list` and `sessions` print the runs and conversations of a namespace."""

import asyncio
import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli.arguments import parse_since, read_labels
from sojourn.cli.client import with_client
from sojourn.cli.failure import OK, USAGE, CommandError
from sojourn.cli.options import Json, OnlyAgent, OnlySession, Tenant, add_connection_options
from sojourn.cli.screen.text import shell_word

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from rich.console import RenderableType

    from sojourn.checks.workers import Stuck
    from sojourn.client.client import Client
    from sojourn.contracts.run import RunStatus
    from sojourn.reader import Turns

__all__ = ["list_", "sessions"]


MAX_LOOKED_AT = 1_000
"""Maximum number of runs whose labels are read, the newest first."""

WATCH_INTERVAL = 2.0
"""Interval of `--watch`, in seconds."""


@add_connection_options
def list_(
    agent_id: OnlyAgent = None,
    session_id: OnlySession = None,
    status: Annotated[
        str | None,
        typer.Option(
            "--status",
            help="running (includes waiting, paused and idle), waiting, paused, idle, completed, failed, canceled, terminated, timed_out, or stuck, as --stuck.",
        ),
    ] = None,
    waiting: Annotated[bool, typer.Option("--waiting", help="Only runs that wait for an answer.")] = False,
    stuck: Annotated[
        bool,
        typer.Option(
            "--stuck", help="Only runs that fail repeatedly or that no worker serves, with the reason."
        ),
    ] = False,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="WHEN", help="Only runs started since: 30m, 2h, 7d, or an ISO date."),
    ] = None,
    labels: Annotated[
        list[str] | None,
        typer.Option(
            "--label", metavar="NAME=VALUE", help="Only runs with this label. Can be given several times."
        ),
    ] = None,
    fork_of: Annotated[
        str | None, typer.Option("--fork-of", metavar="RUN", help="Only forks and retries of this run.")
    ] = None,
    tenant: Tenant = None,
    everything: Annotated[
        bool, typer.Option("--all", help="List child runs too. --waiting and --stuck always list them.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Print the list every 2 s, until Ctrl-C.")] = False,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=10_000, help="The maximum number of runs.")
    ] = 50,
    as_json: Json = False,
) -> int:
    """List runs, newest first.

    \b
    sojourn list --since 2h --watch
    sojourn list --waiting
    sojourn list --agent ops.assistant --status failed --json
    """
    from sojourn.cli.run_table import check_status

    if sum((status is not None, waiting, stuck)) > 1:
        raise CommandError("give only one of --status, --waiting and --stuck", exit_code=USAGE)
    if status == "stuck":
        status, stuck = None, True
    check_status(status)
    if watch and (as_json or not sys.stdout.isatty()):
        raise CommandError(
            "--watch draws on a terminal; leave it out for a pipe, a file or --json", exit_code=USAGE
        )
    waits = waiting or status in ("waiting", "paused")
    filters: dict[str, Any] = {
        "agent_id": agent_id,
        "session_id": session_id,
        "status": "waiting" if waiting else "running" if stuck else status,
        "fork_of": fork_of,
        "tenant": tenant,
        "since": parse_since(since) if since else None,
        # A run that needs a person may be a child run.
        "children": everything or stuck or waits,
    }
    wanted = read_labels(labels or ())

    async def look(client: "Client") -> "tuple[list[RunStatus], dict[str, Stuck]]":
        from sojourn.client.stuck import MAX_CHECKED

        runs = await _find(client, filters, MAX_CHECKED + 1 if stuck else limit, wanted)
        why: dict[str, Stuck] = {}
        if stuck:
            why = await _find_stuck(client, runs)
            runs = [run for run in runs if run.run_id in why][:limit]
        runs.sort(key=lambda run: run.started_at or datetime.min.replace(tzinfo=UTC), reverse=True)
        return runs, why

    async def main(client: "Client") -> int:
        if watch:
            return await _watch(lambda: look(client), hides=not filters["children"])
        runs, why = await look(client)
        if as_json:
            from sojourn.cli.run_table import run_to_json

            for run in runs:
                print(json.dumps(run_to_json(run, why.get(run.run_id)), ensure_ascii=False))
        else:
            _show(runs, why, hides=not filters["children"])
        return OK

    return with_client(main)


async def _find(
    client: "Client", filters: dict[str, Any], limit: int, labels: dict[str, str]
) -> "list[RunStatus]":
    from sojourn.errors import InvalidInput

    try:
        if not labels:
            return [run async for run in client.list_runs(**filters, limit=limit)]
        return await _find_labelled(client, filters, limit, labels)
    except InvalidInput as error:  # the search attributes are missing, which is not bad usage
        raise CommandError(str(error)) from error


async def _find_labelled(
    client: "Client", filters: dict[str, Any], limit: int, labels: dict[str, str]
) -> "list[RunStatus]":
    """Return the runs with these labels, of the first that the other filters select."""
    from sojourn.client.listing import with_labels

    count = 0

    async def look_at() -> "AsyncGenerator[RunStatus]":
        nonlocal count
        async for run in client.list_runs(**filters, limit=MAX_LOOKED_AT + 1):
            count += 1
            if count <= MAX_LOOKED_AT:
                yield run

    found = [run async for run in with_labels(client.temporal, look_at(), labels, limit)]
    if count > MAX_LOOKED_AT:
        print(
            f"sojourn: read the labels of only {MAX_LOOKED_AT:,} runs; to reach others, add --since, --status, --agent or --session",
            file=sys.stderr,
        )
    return found


async def _watch(
    look: "Callable[[], Awaitable[tuple[list[RunStatus], dict[str, Stuck]]]]", *, hides: bool
) -> int:
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False)
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        try:
            while True:
                runs, why = await look()
                live.update(_drawing(runs, why, console.width, hides=hides), refresh=True)
                await asyncio.sleep(WATCH_INTERVAL)
        except asyncio.CancelledError:
            return OK


async def _find_stuck(client: "Client", runs: "list[RunStatus]") -> "dict[str, Stuck]":
    from sojourn.checks.workers import find_stuck
    from sojourn.client.stuck import MAX_CHECKED

    if len(runs) > MAX_CHECKED:
        print(
            f"sojourn: checked only the newest {MAX_CHECKED:,} open runs; to check others, add --agent or --session",
            file=sys.stderr,
        )
    return await find_stuck(client, [run.run_id for run in runs[:MAX_CHECKED]])


def _show(runs: "list[RunStatus]", why: "dict[str, Stuck]", *, hides: bool) -> None:
    from rich.console import Console

    from sojourn.cli.run_table import PLAIN_WIDTH

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    console.print(_drawing(runs, why, console.width, hides=hides), crop=False)


def _drawing(
    runs: "list[RunStatus]", why: "dict[str, Stuck]", width: int, *, hides: bool
) -> "RenderableType":
    from rich.text import Text

    from sojourn.cli.run_table import run_table

    if not runs:
        return Text(f"no runs found{'; --all lists child runs too' if hides else ''}", style="dim")
    return run_table(runs, why, width)


AT_ONCE = 8
"""Maximum number of concurrent reads of histories."""

MAX_LONG = 200
"""Maximum number of conversations whose histories are read."""


@add_connection_options
def sessions(
    agent_id: Annotated[
        str | None, typer.Option("--agent", metavar="ID", help="Only conversations with this agent.")
    ] = None,
    session_id: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="Only conversations of this session.")
    ] = None,
    status: Annotated[
        str | None,
        typer.Option(
            "--status",
            help="idle, waiting, paused, running (includes these), completed, failed, canceled, terminated or timed_out.",
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="WHEN", help="Only conversations started since: 30m, 2h, 7d, or an ISO date."
        ),
    ] = None,
    labels: Annotated[
        list[str] | None,
        typer.Option(
            "--label",
            metavar="NAME=VALUE",
            help="Only conversations with this label. Can be given several times.",
        ),
    ] = None,
    tenant: Tenant = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=10_000, help="The maximum number of conversations.")
    ] = 50,
    long: Annotated[
        bool,
        typer.Option(
            "--long",
            help=f"Also read their histories: number of turns, and last message. At most {MAX_LONG} conversations.",
        ),
    ] = False,
    as_json: Json = False,
) -> int:
    """List conversations, newest first, by the names for chat, send, interrupt and close.

    \b
    sojourn sessions --status idle
    sojourn sessions --agent ops.assistant --since 7d --json
    """
    from sojourn.cli.run_table import PLAIN_WIDTH, check_status, run_to_json

    check_status(status)
    if long and limit > MAX_LONG:
        raise typer.BadParameter(f"--long reads {MAX_LONG} histories at most; give a smaller --limit")
    wanted, start = read_labels(labels or ()), parse_since(since) if since else None

    async def main(client: "Client") -> int:
        from sojourn.errors import InvalidInput

        listing = client.list_sessions(
            agent_id=agent_id,
            session_id=session_id,
            status=status,
            since=start,
            labels=wanted,
            tenant=tenant,
            limit=limit,
        )
        try:
            found = [session async for session in listing]
        except InvalidInput as error:  # the search attributes are missing, which is not bad usage
            raise CommandError(str(error)) from error
        turns: list[Turns | None] = []
        if long:
            from sojourn.reader import Reader

            read = await Reader(client).turns((each.run_id for each in found), most=AT_ONCE)
            turns = [read.get(each.run_id) for each in found]
        if as_json:
            for place, session in enumerate(found):
                more = _fields_of(turns[place]) if turns else {}
                print(json.dumps({**run_to_json(session), **more}, ensure_ascii=False))
            return OK
        from rich.console import Console

        from sojourn.cli.run_table import run_table

        console = Console(highlight=False)
        console.width = console.width if console.is_terminal else PLAIN_WIDTH
        if not found:
            begin = "sojourn chat AGENT begins one"
            print(f"no conversations found; {begin}" if sys.stdout.isatty() else "no conversations found")
            return OK
        names = [shell_word(f"{each.run_id.partition('@')[0]}@{each.session_id}") for each in found]
        console.print(run_table(found, {}, console.width, sessions=names, turns=turns), crop=False)
        if unread := turns.count(None):
            console.print(f"{unread} could not be read")
        return OK

    return with_client(main)


def _fields_of(turns: "Turns | None") -> dict[str, Any]:
    if turns is None:
        return {"turns": None, "queued": None, "last_message": None}
    last = turns.last and {
        "message_id": turns.last.message_id,
        "text": turns.last.message.text,
        "by": turns.last.by,
        "at": turns.last.time.isoformat(),
    }
    return {"turns": turns.ended, "queued": turns.queued, "last_message": last}

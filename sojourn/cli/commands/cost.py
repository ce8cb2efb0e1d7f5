"""`sojourn cost` prints the tokens and money that the runs of a period used.

A run's totals include those of its child runs, so only runs without a parent are counted.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli.arguments import parse_since
from sojourn.cli.client import with_client
from sojourn.cli.failure import OK, USAGE, CommandError
from sojourn.cli.options import Json, OnlyAgent, OnlySession, add_connection_options
from sojourn.cli.screen.text import local, plain
from sojourn.values.text import count_noun
from sojourn.values.visible import format_money

if TYPE_CHECKING:
    from sojourn.client.client import Client
    from sojourn.contracts.run import RunStatus
    from sojourn.reader import Reader, Spending

    Parts = dict[str | None, Spending]

__all__ = ["cost"]

BY = {"agent": "agent_id", "session": "session_id", "tenant": "tenant", "model": "model", "day": "day"}
"""The field of a row for each value of `--by`."""

MAX_LOOKED_AT = 2_000
"""Maximum number of runs to read."""

MAX_NAMED = 20
"""Maximum number of unreadable runs whose ids are printed."""

AT_ONCE = 20
"""Maximum number of concurrent reads of runs."""


@add_connection_options
def cost(
    since: Annotated[
        str,
        typer.Option("--since", metavar="WHEN", help="Runs started since: 30m, 2h, 7d, or an ISO date."),
    ] = "7d",
    agent_id: OnlyAgent = None,
    session_id: OnlySession = None,
    by: Annotated[
        str,
        typer.Option(
            "--by",
            metavar="agent|session|tenant|model|day",
            help="One line for each of these; default: agent.",
        ),
    ] = "agent",
    as_json: Json = False,
) -> int:
    """Show the tokens and the money that runs used, with those of their child runs.

    \b
    sojourn cost --since 7d
    sojourn cost --since 2026-03-01 --by session --json
    sojourn cost --since 30d --by tenant
    """
    if by not in BY:
        raise CommandError(f"{plain(by)!r} is none of {', '.join(BY)}", exit_code=USAGE)
    moment = parse_since(since)
    filters = {"agent_id": agent_id, "session_id": session_id, "since": moment, "children": False}

    async def main(client: "Client") -> int:
        from sojourn.reader import Spending, spending_by_model, sum_of, total_of

        runs, has_more = await _find(client, filters)
        lines: dict[str, Spending] = {}
        total = Spending()
        read = spending_by_model if by == "model" else total_of
        for run, parts in zip(runs, await _spending_of(client, runs, read), strict=True):
            for name, spent in parts.items():
                lines.setdefault(_name(run, by) if name is None else name, Spending()).add(spent)
            total.add(sum_of(parts.values()))
        lines = dict(sorted(lines.items(), key=_by_day if by == "day" else _by_cost))
        facts: dict[str, Any] = {
            "since": moment.isoformat(),
            "looked_at": len(runs),
            "has_more": has_more,
            "open": sum(run.closed_at is None for run in runs),
            "unread": total.unread,
        }
        if as_json:
            rows = [{BY[by]: name, **_to_json(spent)} for name, spent in lines.items()]
            print(json.dumps({**facts, "by": by, "rows": rows, "total": _to_json(total)}, ensure_ascii=False))
            return OK
        _show(by, lines, total)
        print("\n".join(_notes(facts, total, local(moment))))
        return OK

    return with_client(main)


async def _find(client: "Client", filters: dict[str, Any]) -> "tuple[list[RunStatus], bool]":
    from sojourn.client.listing import Selection, find_runs, newest_of
    from sojourn.errors import InvalidInput

    try:
        return await newest_of(find_runs(client.temporal, Selection(**filters), None), MAX_LOOKED_AT)
    except InvalidInput as error:  # the search attributes are missing, which is not bad usage
        raise CommandError(str(error)) from error


def _name(run: "RunStatus", by: str) -> str:
    if by == "day":
        return run.started_at.astimezone().date().isoformat() if run.started_at else ""
    return str(getattr(run, BY[by], ""))


def _to_json(spent: "Spending") -> dict[str, Any]:
    return {
        "runs": spent.runs,
        "input_tokens": spent.input_tokens,
        "output_tokens": spent.output_tokens,
        "cost": None if spent.cost is None else round(spent.cost, 9),
        "unpriced": spent.unpriced,
    }


def _by_cost(line: "tuple[str, Spending]") -> tuple[float, int, str]:
    return -(line[1].cost or 0), -line[1].input_tokens, line[0]


def _by_day(line: "tuple[str, Spending]") -> str:
    return line[0]


async def _spending_of(
    client: "Client", runs: "Sequence[RunStatus]", read: "Callable[[Reader, RunStatus], Awaitable[Parts]]"
) -> "list[Parts]":
    from sojourn.errors import RunNotFound, RunUnreadable
    from sojourn.reader import Reader, Spending

    gate, reader = asyncio.Semaphore(AT_ONCE), Reader(client)

    async def parts_of(run: "RunStatus") -> "Parts":
        async with gate:
            try:
                return await read(reader, run)
            except (RunNotFound, RunUnreadable):
                return {None: Spending(unread=[run.run_id])}

    return await asyncio.gather(*(parts_of(run) for run in runs))


def _show(by: str, lines: "dict[str, Spending]", total: "Spending") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 1_000
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(by.upper(), overflow="fold")
    for heading in ("RUNS", "TOKENS IN", "OUT", "COST"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, spent in [*lines.items(), ("total", total)]:
        table.add_row(
            Text(plain(name, 400) or f"(no {by})", style="bold" if spent is total else ""),
            f"{spent.runs:,}",
            f"{spent.input_tokens:,}",
            f"{spent.output_tokens:,}",
            _money(spent),
        )
    console.print(table)


def _money(spent: "Spending") -> str:
    return format_money(spent.cost) or ("unknown" if spent.unpriced else "")


def _notes(facts: dict[str, Any], total: "Spending", moment: str) -> list[str]:
    count, unread = facts["looked_at"], facts["unread"]
    notes = [f"looked at {count_noun(count, 'run')} since {moment}"]
    if facts["has_more"]:
        notes.append(
            "there are more runs, which are not counted: choose a shorter --since, an --agent or a --session"
        )
    if facts["open"]:
        notes.append(f"{facts['open']:,} not ended, counted up to now")
    if total.unpriced:
        notes.append(f"the cost of {total.unpriced:,} is unknown, and counted as nothing")
    if unread:
        named = ", ".join(plain(each, 300) for each in unread[:MAX_NAMED])
        is_are = "is" if len(unread) == 1 else "are"
        notes.append(f"{len(unread):,} could not be read, and {is_are} not counted: {named}")
    return notes

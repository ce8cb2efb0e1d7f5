"""`sojourn schedule` manages recurring runs and recurring messages."""

import json
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo

import typer

from sojourn.cli.arguments import parse_agent, parse_duration, read_labels, read_text
from sojourn.cli.client import by_or_user, with_client
from sojourn.cli.failure import OK
from sojourn.cli.options import By, Files, Json, Priority, add_connection_options, connection_options
from sojourn.cli.screen.text import plain, shell_word
from sojourn.values.text import count_noun

if TYPE_CHECKING:
    from sojourn.client.client import Client
    from sojourn.client.schedule import Schedule
    from sojourn.contracts.run import ScheduleStatus

__all__ = ["schedule"]

schedule = typer.Typer(
    name="schedule",
    help="Start runs, or send messages to a conversation, on a schedule.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

ScheduleId = Annotated[str, typer.Argument(metavar="SCHEDULE", help="The schedule's id.", show_default=False)]
Note = Annotated[str, typer.Argument(metavar="NOTE", help="A note for people.", show_default=False)]


@schedule.command()
@add_connection_options
def create(
    name: Annotated[
        str,
        typer.Argument(
            metavar="AGENT[:TENANT]",
            help="The agent's id, such as ops.assistant; with a tenant, the runs are the tenant's.",
        ),
    ],
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT",
            help="The message; - is the text of standard input; {scheduled_at} in it is when it is due.",
        ),
    ],
    every: Annotated[
        str | None, typer.Option("--every", metavar="PERIOD", help="The interval: 30m, 2h, 7d.")
    ] = None,
    cron: Annotated[
        list[str] | None,
        typer.Option(
            "--cron",
            metavar="EXPRESSION",
            help="A cron expression, such as '0 8 * * 1-5'. Can be given several times.",
        ),
    ] = None,
    time_zone: Annotated[
        str | None,
        typer.Option(
            "--time-zone",
            metavar="ZONE",
            help="The time zone of --cron, such as Europe/Berlin. Default: UTC.",
        ),
    ] = None,
    session_id: Annotated[
        str, typer.Option("--session", metavar="ID", help="Send the message to this conversation.")
    ] = "",
    schedule_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The schedule's id. Default: a generated one.")
    ] = None,
    labels: Annotated[
        list[str] | None,
        typer.Option(
            "--label", metavar="NAME=VALUE", help="A label of the runs. Can be given several times."
        ),
    ] = None,
    priority: Priority = None,
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="A note for people.")] = "",
    files: Files = None,
    by: By = None,
    as_json: Json = False,
) -> int:
    """Create a schedule, and print its id.

    \b
    sojourn schedule create ops.assistant "which sites are dark" --every 1d
    sojourn schedule create ops.assistant "Daily report" --cron '0 8 * * 1-5' --time-zone Europe/Berlin --session desk-1
    sojourn schedule create ops.assistant:acme "Report of {scheduled_at:%B %Y}" --cron '0 8 1 * *'
    """
    agent, principal = parse_agent(name, by_or_user(by))
    given: dict[str, Any] = {
        "messages": read_text(text),
        "every": parse_duration(every) if every else None,
        "cron": cron or None,
        "time_zone": time_zone,
        "session_id": session_id,
        "schedule_id": schedule_id,
        "labels": read_labels(labels or ()),
        "by": by_or_user(by) if session_id else None,
        "principal": principal,
        "priority": priority,
        "note": note,
        "attachments": files or (),
    }

    async def main(client: "Client") -> int:
        made = await client.schedule(agent, **given)
        if skipped := _skipped_line(await made.status()):
            print(f"sojourn: the schedule skips {skipped}", file=sys.stderr)
        print(json.dumps({"schedule_id": made.id}) if as_json else plain(made.id, 300))
        return OK

    return with_client(main)


@schedule.command(name="list")
@add_connection_options
def list_(
    agent_id: Annotated[
        str | None, typer.Option("--agent", metavar="ID", help="Only schedules of this agent.")
    ] = None,
    as_json: Json = False,
) -> int:
    """List the schedules, the next one first.

    \b
    sojourn schedule list --agent ops.assistant
    """

    async def main(client: "Client") -> int:
        found = [each async for each in client.list_schedules(agent_id=agent_id)]
        found.sort(key=lambda each: (each.paused, str(each.next_times[:1]), each.schedule_id))
        if as_json:
            for each in found:
                print(each.model_dump_json())
        elif found:
            _print_table(found)
        else:
            print("no schedules found")
        return OK

    return with_client(main)


@schedule.command()
@add_connection_options
def show(schedule_id: ScheduleId, as_json: Json = False) -> int:
    """Show a schedule: its next times, and its last actions.

    \b
    sojourn schedule show morning
    """

    async def main(client: "Client") -> int:
        status = await client.get_schedule(schedule_id).status()
        if as_json:
            print(status.model_dump_json())
            return OK
        to = f"@{plain(status.session_id)}" if status.session_id else ""
        paused = "paused" if status.paused else "active"
        acted = f"acted {count_noun(status.count or 0, 'time')}"
        print(f"{plain(status.schedule_id, 300)}  {paused}  {plain(status.timing)}  {acted}")
        print(f"{plain(status.agent_id)}{to}: {plain(status.message, 300)}")
        if status.note:
            print(f"note: {plain(status.note, 500)}")
        for moment in status.next_times[:3]:
            print(f"next  {_in_zone(moment, status)}")
        if skipped := _skipped_line(status):
            print(f"skips {skipped}")
        command = f"sojourn watch {shell_word(f'{status.agent_id}@{status.session_id}')}" if to else ""
        for each in status.last:
            follow = command or f"sojourn show {shell_word(each.id)}"
            print(f"last  {_in_zone(each.at, status)}  {follow}{connection_options()}")
        return OK

    return with_client(main)


@schedule.command()
@add_connection_options
def pause(schedule_id: ScheduleId, note: Note = "", as_json: Json = False) -> int:
    """Pause a schedule. The runs that it started continue.

    \b
    sojourn schedule pause morning "until Monday"
    """
    return _act_on(schedule_id, "paused", lambda each: each.pause(note), as_json=as_json)


@schedule.command()
@add_connection_options
def resume(schedule_id: ScheduleId, note: Note = "", as_json: Json = False) -> int:
    """Resume a paused schedule, from its next time on.

    \b
    sojourn schedule resume morning
    """
    return _act_on(schedule_id, "resumed", lambda each: each.resume(note), as_json=as_json)


@schedule.command()
@add_connection_options
def trigger(schedule_id: ScheduleId, as_json: Json = False) -> int:
    """Trigger a schedule once, now.

    \b
    sojourn schedule trigger morning
    """
    return _act_on(schedule_id, "triggered", lambda each: each.trigger(), as_json=as_json)


@schedule.command()
@add_connection_options
def delete(schedule_id: ScheduleId, as_json: Json = False) -> int:
    """Delete a schedule. The runs that it started continue.

    \b
    sojourn schedule delete morning
    """
    return _act_on(schedule_id, "deleted", lambda each: each.delete(), as_json=as_json)


def _act_on(
    schedule_id: str, done: str, act: "Callable[[Schedule], Awaitable[None]]", *, as_json: bool
) -> int:
    async def main(client: "Client") -> int:
        await act(client.get_schedule(schedule_id))
        said = {"schedule_id": schedule_id, "done": done}
        print(json.dumps(said) if as_json else f"{done}: {plain(schedule_id, 300)}")
        return OK

    return with_client(main)


def _in_zone(moment: datetime, status: "ScheduleStatus") -> str:
    """Return a time in the zone of the schedule, with its name."""
    name = status.time_zone or "UTC"
    try:
        there = moment.astimezone(ZoneInfo(name))
    except (KeyError, ValueError, OSError):  # this machine does not know the zone
        there, name = moment.astimezone(UTC), "UTC"
    return f"{there:%Y-%m-%d %H:%M:%S} {plain(name)}"


def _skipped_line(status: "ScheduleStatus") -> str:
    if not status.skipped_times:
        return ""
    times = ", ".join(f"{each:%Y-%m-%d %H:%M}" for each in status.skipped_times)
    return f"{times} {plain(status.time_zone)}: this local time does not exist, since the clocks go forward"


def _print_table(found: "list[ScheduleStatus]") -> None:
    from rich.console import Console
    from rich.table import Table

    from sojourn.cli.run_table import PLAIN_WIDTH

    console = Console(highlight=False)
    console.width = console.width if console.is_terminal else PLAIN_WIDTH
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for title in ("SCHEDULE", "AGENT", "WHEN", "NEXT", "MESSAGE"):
        table.add_column(title, no_wrap=title in ("SCHEDULE", "NEXT"), overflow="fold")
    for each in found:
        agent = f"{each.agent_id}@{each.session_id}" if each.session_id else each.agent_id
        upcoming = "paused" if each.paused else _in_zone(each.next_times[0], each) if each.next_times else ""
        cells = (each.schedule_id, agent, each.timing, upcoming, each.message)
        table.add_row(*(plain(cell, 300) for cell in cells))
    console.print(table)

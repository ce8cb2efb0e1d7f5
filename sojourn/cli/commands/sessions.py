"""`sojourn sessions` prints the conversations of the namespace, newest first.

It marks those that are idle or wait for a person.
"""

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli.client import with_client
from sojourn.cli.failure import OK, CommandError
from sojourn.cli.opening import read_labels
from sojourn.cli.options import Json, Tenant, connected
from sojourn.cli.period import since as moment_since
from sojourn.cli.screen.text import shell_word

if TYPE_CHECKING:
    from sojourn.client.client import Client
    from sojourn.reader import Turns

__all__ = ["sessions"]

AT_ONCE = 8
"""Most histories that are read at the same time."""

MOST = 200
"""Most conversations whose histories are read."""


@connected
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
            "--since", metavar="WHEN", help="Only those started since: 30m, 2h, 7d, or an ISO date."
        ),
    ] = None,
    labels: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="NAME=VALUE", help="Only those with this label; can be repeated."),
    ] = None,
    tenant: Tenant = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=10_000, help="The maximum number of conversations.")
    ] = 50,
    long: Annotated[
        bool,
        typer.Option(
            "--long",
            help=f"Read each one's history too: its turns, and its last message; of {MOST} at most.",
        ),
    ] = False,
    as_json: Json = False,
) -> int:
    """List conversations, newest first, by the names that chat, send, interrupt and close take.

    \b
    sojourn sessions --status idle
    sojourn sessions --agent ops.assistant --since 7d --json
    """
    from sojourn.cli.listed import PLAIN_WIDTH, check_status, to_json

    check_status(status)
    if long and limit > MOST:
        raise typer.BadParameter(f"--long reads {MOST} histories at most; give a smaller --limit")
    wanted, start = read_labels(labels or ()), moment_since(since) if since else None

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
                print(json.dumps({**to_json(session), **more}, ensure_ascii=False))
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
    """Return the fields that `--long --json` adds.

    Each is null for a conversation that could not be read.
    """
    if turns is None:
        return {"turns": None, "queued": None, "last_message": None}
    last = turns.last and {
        "message_id": turns.last.message_id,
        "text": turns.last.message.text,
        "by": turns.last.by,
        "at": turns.last.time.isoformat(),
    }
    return {"turns": turns.ended, "queued": turns.queued, "last_message": last}

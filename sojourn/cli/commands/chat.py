"""`sojourn chat`: talk with an agent at the terminal, or with one message a line of standard input."""

import asyncio
import sys
import uuid
from typing import TYPE_CHECKING, Annotated

import typer

from sojourn.cli.client import by_or_user, with_client
from sojourn.cli.failure import FAILED, OK, WAITING
from sojourn.cli.options import By, Verbose, connected

if TYPE_CHECKING:
    from sojourn.client.client import Client
    from sojourn.client.session import Session, SessionTurn

__all__ = ["chat"]


@connected
def chat(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The agent's id, such as ops.assistant.")],
    session_id: Annotated[
        str | None,
        typer.Option("--session", metavar="ID", help="The session to go on with; a new one by default."),
    ] = None,
    by: By = None,
    verbose: Verbose = 0,
) -> int:
    """Talk with an agent; Ctrl-C ends its present turn, Ctrl-D leaves.

    \b
    sojourn chat shop.clerk
    sojourn chat shop.clerk --session desk-1
    sojourn chat shop.clerk < questions.txt
    """
    who = by_or_user(by)

    async def main(client: "Client") -> int:
        session = client.session(agent, session_id or uuid.uuid4().hex[:8])
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            return await _piped(session, who)
        from sojourn.cli.chat import Chat

        return await Chat(session, who, verbose).run()

    return with_client(main)


async def _piped(session: "Session", who: str | None) -> int:
    """Send each line of standard input, and print its answer; return 1 if a turn failed, 4 where one waits for a person."""
    from sojourn.core.values.visible import visible
    from sojourn.errors import RunFailed

    code = OK
    while line := await asyncio.to_thread(sys.stdin.readline):
        if not line.strip():
            continue
        turn = await session.send(line.strip(), by=who)
        if waits := await _waits(turn):
            print("\n".join(waits), file=sys.stderr)
            return WAITING
        try:
            print(visible((await turn.result()).text, keep="\n\t"), flush=True)
        except RunFailed as error:
            print(f"sojourn: {visible(str(error), keep='')}", file=sys.stderr)
            code = FAILED
    return code


async def _waits(turn: "SessionTurn") -> list[str]:
    """Follow a turn to its end; return how to answer what it waits for, where it waits for a person."""
    from sojourn.cli.screen.wait_views import view_of
    from sojourn.cli.waits import open_waits
    from sojourn.core.awaits.kinds import wait_in

    async for event in turn.events(children=True):
        wait = wait_in(event)
        if wait is None or not view_of(wait).is_for_people:
            continue
        found = [each for each in open_waits(await turn.run.status()) if each.wait.id == wait.id]
        if found:
            return [f"sojourn: waiting; answer with: {each.command}" for each in found]
    return []

"""`sojourn send`: send a message to a conversation, which the first message starts."""

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Annotated, cast

import typer

from sojourn.cli.client import by_or_user, with_client
from sojourn.cli.failure import OK, USAGE, CommandError, Interrupted
from sojourn.cli.options import By, Json, connected, connection_options
from sojourn.cli.screen.text import plain, shell_word

if TYPE_CHECKING:
    from sojourn.client.client import Client
    from sojourn.client.session import Session, SessionTurn
    from sojourn.core.run.inbox import Mode

__all__ = ["send"]


@connected
def send(
    session: Annotated[
        str, typer.Argument(metavar="AGENT@SESSION", help="The conversation: the agent and the session's id.")
    ],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The message; - reads it from standard input.")],
    mode: Annotated[
        str, typer.Option("--mode", help="queue: a turn of its own; steer: the present turn reads it.")
    ] = "queue",
    message_id: Annotated[
        str | None,
        typer.Option(
            "--message-id",
            metavar="ID",
            help="An id of your own: sent again, the message is not delivered twice.",
        ),
    ] = None,
    by: By = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the answer, and print it.")] = False,
    as_json: Json = False,
) -> int:
    """Send a message to a conversation; the first one starts it.

    \b
    sojourn send shop.clerk@desk-1 'Where is order 7?' --wait
    sojourn send shop.clerk@desk-1 'Only the open ones' --mode steer
    """
    agent_id, at, session_id = session.partition("@")
    if not (agent_id and at and session_id):
        raise CommandError(
            f"{plain(session)!r} names no conversation: AGENT@SESSION, such as shop.clerk@desk-1",
            exit_code=USAGE,
        )
    if text == "-":
        text = sys.stdin.read()

    async def main(client: "Client") -> int:
        talk = client.session(agent_id, session_id)
        turn = await talk.send(text, message_id=message_id, mode=cast("Mode", mode), by=by_or_user(by))
        if not wait:
            _print(talk, turn, as_json=as_json)
            return OK
        try:
            output = await turn.result()
        except asyncio.CancelledError:
            again = f"sojourn watch {shell_word(talk.run.id)}{connection_options()}"
            raise Interrupted(f"interrupted; the conversation goes on: {again}", run_id=talk.run.id) from None
        from sojourn.core.values.visible import visible

        print(output.model_dump_json() if as_json else visible(output.text, keep="\n\t"))
        return OK

    return with_client(main)


def _print(session: "Session", turn: "SessionTurn", *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"run_id": session.run.id, "message_id": turn.message_id}))
    else:
        print(turn.message_id)

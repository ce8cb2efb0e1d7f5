"""`sojourn send`, `withdraw`, `interrupt` and `close` act on a conversation."""

import asyncio
import json
from typing import TYPE_CHECKING, Annotated, cast

import typer

from sojourn.cli.arguments import find_last_message, parse_conversation, read_text
from sojourn.cli.client import by_or_user, print_done, with_client
from sojourn.cli.failure import OK, USAGE, CommandError, Interrupted
from sojourn.cli.options import By, Files, Json, Patient, Why, add_connection_options, connection_options
from sojourn.cli.screen.text import shell_word

if TYPE_CHECKING:
    from sojourn.client.client import Client
    from sojourn.client.session import Session, SessionTurn
    from sojourn.core.run.inbox import Mode

__all__ = ["close", "interrupt", "send", "withdraw"]

Conversation = Annotated[
    str, typer.Argument(metavar="AGENT@SESSION", help="The conversation: the agent and the session's id.")
]


@add_connection_options
def send(
    session: Conversation,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="The message, or - for standard input.")
    ] = None,
    mode: Annotated[
        str,
        typer.Option(
            "--mode",
            help="queue: it gets a turn of its own. steer: it joins the present turn. interrupt: it ends the present turn.",
        ),
    ] = "queue",
    message_id: Annotated[
        str | None,
        typer.Option(
            "--message-id",
            metavar="ID",
            help="An id of your own. Sent again with it, the message is delivered once.",
        ),
    ] = None,
    edit: Annotated[
        str | None,
        typer.Option(
            "--edit",
            metavar="ID",
            help="The message to replace, as `send` prints its id. The conversation goes on from there, in another branch.",
        ),
    ] = None,
    retry: Annotated[
        bool, typer.Option("--retry", help="Have the last message answered again, in another branch.")
    ] = False,
    files: Files = None,
    by: By = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the answer, and print it.")] = False,
    patient: Patient = False,
    as_json: Json = False,
) -> int:
    """Send a message to a conversation. The first message starts it.

    \b
    sojourn send shop.clerk@desk-1 'Where is order 7?' --wait
    sojourn send shop.clerk@desk-1 'Only the open ones' --mode steer
    sojourn send shop.clerk@desk-1 'Is it this lamp?' --file lamp.jpg --wait
    sojourn send shop.clerk@desk-1 'Where is order 9?' --edit m-7 --wait
    sojourn send shop.clerk@desk-1 --retry --wait
    """
    who = by_or_user(by)
    found = parse_conversation(session, who)
    if edit == "":
        raise CommandError("--edit takes the id of a message, which is not empty", exit_code=USAGE)
    if (edit or retry) and (message_id or mode != "queue"):
        raise CommandError("--edit and --retry take no --message-id and no --mode", exit_code=USAGE)
    if retry and (text is not None or edit or files):
        raise CommandError("--retry sends nothing new; --edit ID sends other words", exit_code=USAGE)
    if text is None and not retry:
        raise CommandError("give the message: TEXT, or - for standard input", exit_code=USAGE)
    words = None if text is None else read_text(text)

    async def main(client: "Client") -> int:
        talk = found(client)
        if retry or edit:
            replaced, number = (edit, None) if edit else await find_last_message(talk, who)
            turn = await talk.edit(
                replaced, words, by=who, attachments=files or (), branches=number, keep_files=True
            )
        else:
            turn = await talk.send(
                words or "", message_id=message_id, mode=cast("Mode", mode), by=who, attachments=files or ()
            )
        if not wait:
            _print(talk, turn, as_json=as_json)
            return OK
        from sojourn.cli.outcome import follow_turn

        try:
            return await follow_turn(turn, as_json=as_json, patient=patient)
        except asyncio.CancelledError:
            again = f"sojourn watch {shell_word(talk.run.id)}{connection_options()}"
            raise Interrupted(f"interrupted; the conversation goes on: {again}", run_id=talk.run.id) from None

    return with_client(main)


@add_connection_options
def withdraw(
    session: Conversation,
    message_id: Annotated[
        str, typer.Argument(metavar="MESSAGE_ID", help="The message's id, as `send` prints it.")
    ],
    by: By = None,
    as_json: Json = False,
) -> int:
    """Withdraw a message whose turn has not begun.

    \b
    sojourn withdraw shop.clerk@desk-1 m-7
    """
    who = by_or_user(by)
    found = parse_conversation(session, who)

    async def main(client: "Client") -> int:
        talk = found(client)
        # Who reaches the Temporal server operates every conversation.
        is_new = await talk.withdraw(message_id, by=who, as_operator=True)
        then = "" if is_new else "it was withdrawn before"
        return print_done("withdrawn", talk.run.id, as_json=as_json, by=who, then=then, message_id=message_id)

    return with_client(main)


@add_connection_options
def interrupt(
    session: Conversation,
    why: Why = "",
    turn: Annotated[
        str | None,
        typer.Option("--turn", metavar="ID", help="The turn to end. Default: the present one."),
    ] = None,
    by: By = None,
    as_json: Json = False,
) -> int:
    """End the present turn of a conversation, and cancel its calls.

    \b
    sojourn interrupt shop.clerk@desk-1 "wrong order"
    sojourn interrupt shop.clerk@desk-1 --turn t3
    """
    who = by_or_user(by)
    found = parse_conversation(session, who)

    async def main(client: "Client") -> int:
        talk = found(client)
        if not await talk.interrupt(why, by=who, turn_id=turn):
            raise CommandError(f"{talk.run.id} is idle; there is no turn to interrupt", run_id=talk.run.id)
        return print_done("interrupted", talk.run.id, as_json=as_json, by=who)

    return with_client(main)


@add_connection_options
def close(session: Conversation, why: Why = "", by: By = None, as_json: Json = False) -> int:
    """End a conversation as soon as its messages are answered.

    \b
    sojourn close shop.clerk@desk-1 done
    """
    who = by_or_user(by)
    found = parse_conversation(session, who)

    async def main(client: "Client") -> int:
        talk = found(client)
        await talk.close(why, by=who)
        return print_done("closed", talk.run.id, as_json=as_json, by=who)

    return with_client(main)


def _print(session: "Session", turn: "SessionTurn", *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"run_id": session.run.id, "message_id": turn.message_id}))
    else:
        print(turn.message_id)

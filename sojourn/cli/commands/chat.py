"""`sojourn chat` talks with an agent by the lines of a terminal or a pipe."""

import asyncio
import contextlib
import os
import sys
import threading
import uuid
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sojourn.cli.arguments import decode, parse_conversation
from sojourn.cli.client import by_or_user, with_client
from sojourn.cli.failure import FAILED, OK, USAGE, WAITING, CommandError, failure_of
from sojourn.cli.options import By, Files, Json, Patient, Verbose, add_connection_options

if TYPE_CHECKING:
    from sojourn.client.client import Client
    from sojourn.client.session import Session

__all__ = ["chat"]


@add_connection_options
def chat(
    name: Annotated[
        str,
        typer.Argument(
            metavar="AGENT[@SESSION]",
            help="The agent's id, such as ops.assistant, or AGENT@SESSION to continue a conversation.",
        ),
    ],
    session_id: Annotated[
        str | None,
        typer.Option(
            "--session",
            metavar="ID",
            help="The session to continue, as in AGENT@SESSION. Default: a new one.",
        ),
    ] = None,
    files: Files = None,
    patient: Patient = False,
    by: By = None,
    as_json: Json = False,
    verbose: Verbose = 0,
) -> int:
    """Talk with an agent. Ctrl-C ends its present turn, Ctrl-D leaves.

    \b
    sojourn chat shop.clerk
    sojourn chat shop.clerk@desk-1
    sojourn chat shop.clerk < questions.txt
    sojourn chat shop.clerk --file photo.jpg
    """
    who = by_or_user(by)
    if session_id is not None and "@" in name:
        raise CommandError("the session is named twice: AGENT@SESSION or --session ID", exit_code=USAGE)
    found = parse_conversation(name if "@" in name else f"{name}@{session_id or uuid.uuid4().hex[:8]}", who)

    async def main(client: "Client") -> int:
        session = found(client)
        if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
            return await _run_pipe(session, who, files or (), as_json=as_json, patient=patient)
        from sojourn.cli.chat import TerminalChat

        return await TerminalChat(session, who, verbose, files or ()).run()

    return with_client(main)


async def _run_pipe(
    session: "Session", who: str | None, files: Sequence[Path], *, as_json: bool, patient: bool
) -> int:
    from sojourn.cli.outcome import follow_turn

    code = OK
    async for line in _lines():
        try:
            turn = await session.send(line, by=who, attachments=files)
            files = ()
            await follow_turn(turn, as_json=as_json, patient=patient)
        except CommandError as error:
            if error.exit_code == WAITING:
                raise
            failure_of(error).tell(as_json=as_json)
            code = FAILED
    return code


async def _lines() -> AsyncGenerator[str]:
    """Yield the lines of standard input, without a thread that outlives the command."""
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[bytes | None] = asyncio.Queue()

    def read() -> None:
        # Without a buffer: a thread that holds the buffer's lock would abort the process at its end.
        with open(os.dup(sys.stdin.fileno()), "rb", buffering=0) as stdin, contextlib.suppress(RuntimeError):
            for line in stdin:
                loop.call_soon_threadsafe(lines.put_nowait, line)
            loop.call_soon_threadsafe(lines.put_nowait, None)

    threading.Thread(target=read, daemon=True).start()
    number = 0
    while (line := await lines.get()) is not None:
        number += 1
        if text := decode(line, "standard input", line=number).strip():
            yield text

"""`sojourn result` waits for a run's answer, and prints only that."""

import asyncio
import json
from typing import TYPE_CHECKING, Annotated

import typer

from sojourn.cli.client import with_client
from sojourn.cli.failure import OK, WAITING, CommandError, Interrupted
from sojourn.cli.options import Json, RunId, connected, connection_options
from sojourn.cli.screen.text import shell_word
from sojourn.errors import RunFailed

if TYPE_CHECKING:
    from sojourn.client.client import Client
    from sojourn.client.run import Run

__all__ = ["result"]


@connected
def result(
    run_id: RunId,
    patient: Annotated[
        bool, typer.Option("--patient", help="Also wait while the run waits for a person.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Wait for a run's answer, and print its text; of a conversation, that of its last turn. --json prints the whole output.

    \b
    sojourn result RUN
    sojourn result RUN --json
    """

    async def wait(client: "Client") -> int:
        run = client.get_run(run_id)
        try:
            return await _print_result(run, patient=patient, as_json=as_json)
        except asyncio.CancelledError:
            line = f"sojourn result {shell_word(run_id)}{connection_options()}"
            text = f"interrupted; the run continues; wait for its answer with: {line}"
            raise Interrupted(text, run_id=run_id) from None

    return with_client(wait)


async def _print_result(run: "Run", *, patient: bool, as_json: bool) -> int:
    """Print the answer, and raise an error of the run as a command's error.

    Raises:
        CommandError: The run waits for a person, and the command does not wait for that. The error has the command lines that answer.
        RunFailed: The run ended without an answer.
        RunNotFound: There is no such run.
    """
    from sojourn.answers import open_waits
    from sojourn.cli.failed_call import retry_line
    from sojourn.cli.follow import until_end
    from sojourn.values.visible import visible

    if (await run.status()).conversation:
        return await _print_last_turn(run, patient=patient, as_json=as_json)
    if not patient:
        code = await until_end(run, run.events(children=True), lambda _event: None)
        if code == WAITING:
            from sojourn.cli.turns import waits_error

            raise waits_error(run, open_waits(await run.status()))
    try:
        output = await run.result()
    except RunFailed as error:
        if (await run.status()).status in ("failed", "timed_out"):
            error.add_note(retry_line(run.id))
        raise
    if as_json:
        print(output.model_dump_json())
    else:
        typed = "" if output.result is None else json.dumps(output.result, ensure_ascii=False)
        print(visible(output.text or typed, keep="\n\t"))
    return OK


async def _print_last_turn(run: "Run", *, patient: bool, as_json: bool) -> int:
    """Print the answer of the last turn of a conversation, once no message waits.

    Raises:
        CommandError: The conversation waits for a person, and the command does not wait for that; or it has had no turn.
    """
    from sojourn.cli.turns import last_turn, print_turn, waits_error

    found = await last_turn(run, patient=patient)
    if isinstance(found, list):
        raise waits_error(run, found)
    if found is None:
        raise CommandError(f"{run.id} has had no turn yet", run_id=run.id)
    return print_turn(found, as_json=as_json)

"""`sojourn run` starts a run and follows it; `sojourn watch` follows one that is there."""

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from sojourn.cli.client import with_client
from sojourn.cli.options import Deltas, Json, RunId, TaskQueue, encrypted, given_again

if TYPE_CHECKING:
    from sojourn.client.client import Client
    from sojourn.client.run import Run

__all__ = ["run", "watch"]


@encrypted
def run(
    agent: Annotated[str, typer.Argument(help="Which agent, such as ops.assistant.")],
    text: Annotated[str, typer.Argument(help="What to ask it.")],
    run_id: Annotated[
        str | None, typer.Option("--run-id", help="The run's id; made up when left out.")
    ] = None,
    session_id: Annotated[str, typer.Option("--session", help="The conversation it belongs to.")] = "",
    task_queue: TaskQueue = None,
    as_json: Json = False,
    deltas: Deltas = False,
) -> int:
    """Start a run and follow it, answering its questions.

    \b
    sojourn run ops.assistant "Why is site s-1 dark?"
    """

    async def start(client: "Client") -> int:
        run = await client.start(agent, text, run_id=run_id, session_id=session_id)
        return await _attend(run, as_json=as_json, deltas=deltas)

    return with_client(start, task_queue=task_queue)


@encrypted
def watch(
    run_id: RunId,
    after: Annotated[
        str | None, typer.Option("--after", metavar="EVENT_ID", help="Only what comes after this event.")
    ] = None,
    as_json: Json = False,
    deltas: Deltas = False,
) -> int:
    """Follow a run to its end, answering its questions.

    \b
    sojourn watch RUN
    """

    async def attend(client: "Client") -> int:
        return await _attend(client.get_run(run_id), after=after, as_json=as_json, deltas=deltas)

    return with_client(attend)


async def _attend(run: "Run", *, as_json: bool, deltas: bool, after: str | None = None) -> int:
    """Follow a run; the exit code says how it ended. Ctrl-C leaves the run alone, and says how to come back."""
    from sojourn.cli.follow import follow, follow_as_json

    try:
        if as_json:
            return await follow_as_json(run, run.events(after=after, children=True, deltas=deltas))
        return await follow(run, after=after)
    except asyncio.CancelledError:
        line = f"sojourn watch {run.id}{given_again()}"
        print(f"interrupted; the run goes on without you: {line}", file=sys.stderr)
        raise

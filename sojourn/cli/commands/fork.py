"""`sojourn fork` and `retry` start a run that continues from a point of another."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from sojourn.cli.client import by_or_user, print_done, with_client
from sojourn.cli.failure import OK, USAGE, CommandError
from sojourn.cli.options import (
    By,
    Deltas,
    Detach,
    Json,
    RunId,
    Verbose,
    add_connection_options,
    connection_options,
    load_app,
)
from sojourn.cli.screen.text import plain, shell_word
from sojourn.errors import InvalidInput
from sojourn.values.json_text import loads
from sojourn.values.text import count_noun

if TYPE_CHECKING:
    from sojourn.client.client import Client
    from sojourn.client.forking import ForkReview
    from sojourn.client.run import Run

__all__ = ["fork", "retry"]

NewRunId = Annotated[
    str | None,
    typer.Option("--run-id", metavar="ID", help="The id of the new run. Default: a generated one."),
]


@add_connection_options
def fork(
    run_id: RunId,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="EVENT_ID",
            help="The event to continue from, as `show --events` prints it. Default: the last.",
        ),
    ] = None,
    message: Annotated[str | None, typer.Option("--message", help="Add a message to the planner.")] = None,
    result: Annotated[
        str | None,
        typer.Option(
            "--result", metavar="JSON", help="Replace the result of the call that ended at the event."
        ),
    ] = None,
    answer: Annotated[
        str | None,
        typer.Option("--answer", metavar="TEXT", help="Replace the answer to the planner's question."),
    ] = None,
    approve: Annotated[
        bool | None,
        typer.Option(
            "--approve/--deny",
            help="Replace a person's decision on a call.",
            show_default=False,
        ),
    ] = None,
    arguments: Annotated[
        str | None,
        typer.Option(
            "--arguments",
            metavar="JSON",
            help="Replace the arguments of the call that ended at the event, or that the event asked about. The new run checks the call again and carries it out.",
        ),
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option(
            "--history",
            metavar="FILE",
            help="A file of `export --history`, for a run that the server has deleted.",
        ),
    ] = None,
    new_run_id: NewRunId = None,
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Do not ask before a call is repeated with other `--arguments`."),
    ] = False,
    by: By = None,
    detach: Detach = False,
    as_json: Json = False,
    deltas: Deltas = False,
    verbose: Verbose = 0,
) -> int:
    """Start and follow a new run that continues from a point of another, with one change.

    \b
    sojourn fork RUN --at 0-000017-00001
    sojourn fork RUN --at 0-000017-00001 --result '{"lamps": 3}'
    sojourn fork RUN --at 0-000017-00001 --arguments '{"room": "attic"}'
    sojourn fork RUN --message "And the next one?" --detach
    """
    if approve is not None and at is None:
        raise CommandError(
            "--approve and --deny decide on the call of an event: name it with --at", exit_code=USAGE
        )
    from sojourn.cli.follow import attach
    from sojourn.client.forking import UnknownEvent

    given: dict[str, Any] = {} if result is None else {"result": _json("--result", result)}
    if arguments is not None:
        given["arguments"] = _object("--arguments", arguments)
        if target := os.environ.get("SOJOURN_APP"):
            given["app"] = load_app(target)  # its tools check them before the fork starts

    async def review(fork: "ForkReview") -> None:
        await _warn(fork, is_asking=not (yes or as_json) and sys.stdin.isatty())

    async def start(client: "Client") -> int:
        try:
            new = await client.fork(
                run_id,
                at=at,
                message=message,
                answer=answer,
                approve=approve,
                by=by_or_user(by),
                history=history,
                new_run_id=new_run_id,
                review=review,
                **given,
            )
        except UnknownEvent as error:
            line = f"sojourn show {shell_word(run_id)} --events{connection_options()}"
            raise CommandError(
                f"{error}; `{line}` lists their ids", exit_code=USAGE, run_id=run_id
            ) from error
        await _print_new("forked", run_id, new, detach=detach, as_json=as_json)
        if detach:
            return OK
        status = await new.status()
        is_idle = status.conversation and status.phase == "idle" and not status.queued
        code = (
            OK
            if is_idle
            else await attach(
                new, as_json=as_json, deltas=deltas, verbose=verbose, one_turn=status.conversation
            )
        )
        if status.conversation and not as_json:
            session = f"{shell_word(status.agent_id)} --session {shell_word(status.session_id)}"
            print(f"talk to it with: sojourn chat {session}{connection_options()}", flush=True)
        return code

    return with_client(start)


@add_connection_options
def retry(
    run_id: RunId,
    new_run_id: NewRunId = None,
    now: Annotated[
        bool,
        typer.Option(
            "--now",
            help="Of an open run: begin the next attempts of its plan and calls at once, without the rest of their backoff.",
        ),
    ] = False,
    detach: Detach = False,
    as_json: Json = False,
    deltas: Deltas = False,
    verbose: Verbose = 0,
) -> int:
    """Continue a failed run in a new run, from the last point before the failure, and follow it.

    Each time it starts another run; sojourn bulk retry starts none if a retry continues the run already.

    \b
    sojourn retry RUN
    sojourn retry RUN --now
    """
    if now:
        return _retry_now(run_id, as_json=as_json)
    from sojourn.cli.follow import attach
    from sojourn.contracts.run import OPEN_STATUSES

    async def start(client: "Client") -> int:
        status = (await client.get_run(run_id).status()).status
        try:
            new = await client.retry(run_id, new_run_id=new_run_id)
        except InvalidInput as error:
            if status in ("failed", "timed_out"):
                raise
            line = f"sojourn fork {shell_word(run_id)}{connection_options()}"
            cancel = f"sojourn cancel {shell_word(run_id)}{connection_options()}"
            soon = f"sojourn retry {shell_word(run_id)} --now{connection_options()}"
            first = f"it goes on by itself, or without the rest of a backoff: {soon}; to go on in another run, cancel it first: {cancel}; then: {line}"
            what = first if status in OPEN_STATUSES else f"go on from it with: {line}"
            raise CommandError(
                f"{plain(run_id, 300)} did not fail, it is {status}; {what}",
                run_id=run_id,
            ) from error
        await _print_new("retried", run_id, new, detach=detach, as_json=as_json)
        if detach:
            return OK
        return await attach(new, as_json=as_json, deltas=deltas, verbose=verbose)

    return with_client(start)


def _retry_now(run_id: str, *, as_json: bool) -> int:
    async def send(client: "Client") -> int:
        run = client.get_run(run_id)
        if not (status := await run.status()).is_open:
            line = f"sojourn retry {shell_word(run_id)}{connection_options()}"
            raise CommandError(
                f"{plain(run_id, 300)} has ended ({plain(status.status)}); go on in a new run with: {line}",
                run_id=run_id,
            )
        count = len(await run.retry_now())
        then = f"{count_noun(count, 'attempt')} began" if count else "nothing waits for its next attempt"
        return print_done("retried_now", run_id, as_json=as_json, by=None, then=then, attempts=count)

    return with_client(send)


async def _warn(fork: "ForkReview", *, is_asking: bool) -> None:
    """Warn, before the fork starts, that its origin already made the call."""
    if not fork.warning:
        return
    from sojourn.cli.screen.prompt import ask_yes

    print(f"warning: {plain(fork.warning, 1_000)}", file=sys.stderr, flush=True)
    if is_asking and not await ask_yes("Fork?"):
        raise CommandError("no fork was started", run_id=fork.origin.run_id)


def _json(option: str, text: str) -> Any:
    try:
        return loads(text)
    except RecursionError as error:
        raise CommandError(f"{option} is nested too deeply", exit_code=USAGE) from error
    except ValueError as error:
        raise CommandError(
            f"{option} is not JSON: {error}; put a text in quotes: '\"text\"'", exit_code=USAGE
        ) from error


def _object(option: str, text: str) -> dict[str, Any]:
    found = _json(option, text)
    if not isinstance(found, dict):
        raise CommandError(
            f"""{option} is no JSON object; name each argument: '{{"NAME": VALUE}}'""", exit_code=USAGE
        )
    return cast("dict[str, Any]", found)


async def _print_new(done: str, run_id: str, new: "Run", *, detach: bool, as_json: bool) -> None:
    origin = (await new.status()).forked_from
    point, at = (origin.event_id, origin.at) if origin else ("", "")
    if as_json:
        if detach:
            fields = {
                "run_id": new.id,
                "done": done,
                "forked_from": run_id,
                "event_id": point,
                "at": at or None,
            }
            print(json.dumps(fields))
        return
    if at and _history_event(at) != _history_event(point):
        note = f"{plain(at)} is in the middle of a plan or a step: the last point before it is {plain(point)}"
        print(note, file=sys.stderr, flush=True)
    if detach:
        print(plain(new.id, 300))
    else:
        print(f"{done}: {plain(new.id, 300)} goes on from {plain(run_id, 300)} at {plain(point)}", flush=True)


def _history_event(event_id: str) -> str:
    return event_id.rpartition("-")[0]

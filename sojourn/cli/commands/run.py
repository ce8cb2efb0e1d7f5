"""`sojourn run`, `watch` and `result` start, follow and wait for a run."""

import asyncio
import json
import re
import sys
from collections import deque
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli.arguments import parse_agent
from sojourn.cli.client import by_or_user, with_client, worker_line
from sojourn.cli.failure import OK, USAGE, CommandError, Interrupted
from sojourn.cli.options import (
    Deltas,
    Detach,
    Files,
    Json,
    Patient,
    Priority,
    RunId,
    SaveFiles,
    Verbose,
    add_connection_options,
    connection_options,
)
from sojourn.cli.screen.text import plain, shell_word
from sojourn.errors import InvalidInput, NoWorker, RunAlreadyExists, RunFailed

if TYPE_CHECKING:
    from pathlib import Path

    from sojourn.client.client import Client
    from sojourn.client.run import Run

__all__ = ["result", "run", "watch"]


_OPTIONS = {"run_id": "--run-id", "session_id": "--session", "agent_id": "AGENT"}
"""Options and arguments of the command, by the client's arguments that errors name."""


@add_connection_options
def run(
    name: Annotated[
        str,
        typer.Argument(
            metavar="AGENT[:TENANT]",
            help="The agent's id, such as ops.assistant. With AGENT:TENANT, the run belongs to the tenant.",
        ),
    ],
    text: Annotated[str, typer.Argument(help="The first message to the agent, or - for standard input.")],
    run_id: Annotated[
        str | None, typer.Option("--run-id", help="The run's id. Default: a generated one.")
    ] = None,
    session_id: Annotated[str, typer.Option("--session", help="The id of its session.")] = "",
    labels: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="NAME=VALUE", help="A label of the run. Can be given several times."),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            metavar="FILE",
            help="A file with limits of this run, as a JSON object, or - for standard input.",
        ),
    ] = None,
    priority: Priority = None,
    files: Files = None,
    save_files: SaveFiles = None,
    detach: Detach = False,
    patient: Patient = False,
    as_json: Json = False,
    deltas: Deltas = False,
    verbose: Verbose = 0,
) -> int:
    """Start a run and follow it. Asks you the run's questions.

    \b
    sojourn run ops.assistant "Why is site s-1 dark?"
    sojourn run ops.assistant:acme "Why is site s-1 dark?"
    sojourn run ops.assistant - --detach < report.txt
    sojourn run ops.assistant "What is wrong here?" --file photo.jpg

    \b
    Marks:
      >  said to the agent         =  the answer
      ✓  a call that succeeded     ✗  a call or a run that failed or was denied
      →  a call begins             ←  its result (without a terminal)
      …  in progress               ⤷  a child run
      ·  a note of the planner     “  its text with its calls
      ?  it asks a person          !  decided, or a limit was reached
      ‖  paused                    ▶  resumed
      +  an artifact (-v)          ↻  how to repair a call (-vv)
      §  from the policy (-vv)
    """
    from sojourn.cli.arguments import read_labels, read_policy, read_text
    from sojourn.cli.follow import attach
    from sojourn.cli.outcome import save_made_files

    agent, principal = parse_agent(name, by_or_user(None))
    if save_files and detach:
        raise CommandError(
            "--detach does not wait for files; get them later by sojourn result RUN --save-files DIR",
            exit_code=USAGE,
        )
    if text == "-" and policy == "-":
        raise CommandError("standard input is either the message or the policy, not both", exit_code=USAGE)
    given: dict[str, Any] = {
        "messages": read_text(text),
        "labels": read_labels(labels or ()),
        "policy": read_policy(policy) if policy else None,
        "run_id": run_id,
        "session_id": session_id,
        "principal": principal,
        "priority": priority,
        "attachments": files or (),
    }

    async def start(client: "Client") -> int:
        client.task_queue = client.task_queue or await _choose_queue(
            client, agent, asks=not (as_json or detach)
        )
        run = await _start(client, agent, given)
        if not detach:
            code = await attach(run, as_json=as_json, deltas=deltas, verbose=verbose, patient=patient)
            if save_files and code == OK:
                await save_made_files(run, (await run.result()).artifacts, save_files)
            return code
        if as_json:
            started = {"run_id": run.id, "agent_id": agent, "session_id": session_id}
            queue = (await client.temporal.get_workflow_handle(run.id).describe()).task_queue
            print(json.dumps({**started, "task_queue": queue}))
        else:
            print(plain(run.id, 300))
        return OK

    return with_client(start)


async def _choose_queue(client: "Client", agent: str, *, asks: bool) -> str | None:
    from temporalio.service import RPCError

    from sojourn.cli.screen.prompt import ask_person
    from sojourn.client.access import queues_serving
    from sojourn.connection.rpc_errors import translate_error

    try:
        queues = await queues_serving(client.temporal, agent)
    except RPCError as error:
        raise translate_error(error, None) from error
    if len(queues) < 2:
        return None
    found = f"workers of several task queues serve {plain(agent)}"
    if not (asks and sys.stdin.isatty() and sys.stdout.isatty()):
        names = ", ".join(shell_word(queue) for queue in queues)
        raise CommandError(
            f"{found}: {names}; name one: --task-queue {shell_word(queues[0])}", exit_code=USAGE
        )
    print(f"{found}; which is meant?")
    for number, queue in enumerate(queues, 1):
        print(f"  {number}: {plain(queue)}")
    while True:
        line = await ask_person()
        if line is None:
            raise CommandError("no run was started", exit_code=USAGE)
        if line in queues:
            return line
        if line.isdecimal() and 1 <= int(line) <= len(queues):
            return queues[int(line) - 1]
        print(f"a number from 1 to {len(queues)}")


async def _start(client: "Client", agent: str, given: dict[str, Any]) -> "Run":
    """Start a run. Its errors name options and commands instead of arguments."""
    run_id = given["run_id"]
    try:
        return await client.start(agent, **given)
    except RunAlreadyExists as error:
        line = f"sojourn watch {shell_word(run_id or '')}{connection_options()}"
        raise RunAlreadyExists(
            f"run id {run_id!r} was used before; choose another --run-id, or follow that run with `{line}`",
            run_id=run_id,
        ) from error
    except NoWorker as error:
        queue = client.task_queue
        line = worker_line(queue)
        if queue:
            found = f"no worker polls task queue {queue!r}; start one with `{line}`"
        else:
            found = str(error).replace("sojourn worker MODULE:APP", line)
        raise NoWorker(f"{found}; no run was started", run_id=error.run_id) from error
    except InvalidInput as error:
        text = str(error)
        for name, option in _OPTIONS.items():
            text = re.sub(rf"\b{name}\b", option, text)
        raise InvalidInput(text, run_id=error.run_id) from error


@add_connection_options
def watch(
    run_id: RunId,
    after: Annotated[
        str | None, typer.Option("--after", metavar="EVENT_ID", help="Only events after this event id.")
    ] = None,
    last: Annotated[
        int | None,
        typer.Option("--last", metavar="N", min=1, help="Begin with the last N events of the run."),
    ] = None,
    patient: Patient = False,
    as_json: Json = False,
    deltas: Deltas = False,
    verbose: Verbose = 0,
) -> int:
    """Follow a run to its end. Asks you the run's questions.

    \b
    sojourn watch RUN
    sojourn watch RUN --last 20
    """
    from sojourn.cli.follow import attach

    if after is not None and last is not None:
        raise CommandError("give only one of --after and --last", exit_code=USAGE)

    async def follow_existing(client: "Client") -> int:
        run = client.get_run(run_id)
        return await attach(
            run,
            after=after if last is None else await _place_before(run, last),
            as_json=as_json,
            deltas=deltas,
            verbose=verbose,
            is_old=True,
            patient=patient,
        )

    return with_client(follow_existing)


async def _place_before(run: "Run", last: int) -> str | None:
    """Return the id of the event before the last ones, or None if there are not more."""
    newest: deque[str] = deque(maxlen=last + 1)
    async for event in run.events(follow=False):
        newest.append(event.event_id)
    return newest[0] if len(newest) > last else None


@add_connection_options
def result(
    run_id: RunId,
    patient: Patient = False,
    save_files: SaveFiles = None,
    as_json: Json = False,
) -> int:
    """Wait for a run's answer, or that of a conversation's last turn, and print its text.

    --json prints the whole output.

    \b
    sojourn result RUN
    sojourn result RUN --json
    sojourn result RUN --save-files reports
    """

    async def wait(client: "Client") -> int:
        run = client.get_run(run_id)
        try:
            return await _print_result(run, patient=patient, as_json=as_json, save_files=save_files)
        except asyncio.CancelledError:
            line = f"sojourn result {shell_word(run_id)}{connection_options()}"
            text = f"interrupted; the run continues; wait for its answer with: {line}"
            raise Interrupted(text, run_id=run_id) from None

    return with_client(wait)


async def _print_result(run: "Run", *, patient: bool, as_json: bool, save_files: "Path | None") -> int:
    from sojourn.cli.follow import until_end
    from sojourn.cli.outcome import retry_advice, save_made_files
    from sojourn.values.visible import visible

    if (await run.status()).conversation:
        return await _print_last_turn(run, patient=patient, as_json=as_json, save_files=save_files)
    if not patient:
        await until_end(run, run.events(children=True), lambda _event: None)
    try:
        output = await run.result()
    except RunFailed as error:
        if advice := await retry_advice(run):
            error.add_note(advice)
        raise
    if as_json:
        print(output.model_dump_json())
    else:
        typed = "" if output.result is None else json.dumps(output.result, ensure_ascii=False)
        print(visible(output.text or typed, keep="\n\t"))
    if save_files:
        await save_made_files(run, output.artifacts, save_files)
    return OK


async def _print_last_turn(run: "Run", *, patient: bool, as_json: bool, save_files: "Path | None") -> int:
    from sojourn.cli.outcome import last_turn, print_turn, save_made_files, waits_error

    found = await last_turn(run, patient=patient)
    if isinstance(found, list):
        raise waits_error(run, found)
    if found is None:
        raise CommandError(f"{run.id} has had no turn yet", run_id=run.id)
    code = print_turn(found, as_json=as_json)
    if save_files and found.type == "turn_completed":
        await save_made_files(run, found.output.artifacts, save_files)
    return code

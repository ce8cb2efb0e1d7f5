"""`sojourn bulk` cancels or retries the runs of a file, each by itself.

The file is what `sojourn list --json` prints, so that the same filters that show runs choose them.
"""

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from sojourn.cli.arguments import read_lines
from sojourn.cli.client import by_or_user, print_done, with_client
from sojourn.cli.failure import FAILED, OK, USAGE, CommandError, failure_of
from sojourn.cli.options import By, Json, add_connection_options
from sojourn.cli.screen.text import plain
from sojourn.values.json_text import loads
from sojourn.values.text import count_noun

if TYPE_CHECKING:
    from datetime import datetime

    from sojourn.client.bulk import BulkAction, BulkResult, Retried
    from sojourn.client.client import Client
    from sojourn.client.run import Run

__all__ = ["bulk"]


@add_connection_options
def bulk(
    action: Annotated[
        Literal["cancel", "retry", "retry-now"], typer.Argument(metavar="ACTION", show_default=False)
    ],
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="Runs, one a line: an id, or a JSON object with run_id. - for standard input.",
            show_default=False,
        ),
    ],
    why: Annotated[str, typer.Option("--why", metavar="WHY", help="The reason of a cancellation.")] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print which runs it would change, and how many.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    by: By = None,
    as_json: Json = False,
) -> int:
    """Cancel or retry runs: cancel, retry, or retry-now.

    A run that has another status is left as it is. retry continues runs that ended without an answer in new ones, and none twice. retry-now ends the backoff of open runs.

    \b
    sojourn list --agent ops.assistant --status failed --limit 500 --json > runs.jsonl
    sojourn bulk retry runs.jsonl
    sojourn list --stuck --json | sojourn bulk retry-now - --yes
    """
    run_ids, verb = _read(file), cast("BulkAction", action.replace("-", "_"))
    if why and verb != "cancel":
        raise CommandError("--why goes with cancel", exit_code=USAGE)
    asks = not (dry_run or yes)
    if asks and (as_json or not sys.stdin.isatty()):
        raise CommandError(
            "there is no terminal to ask at; look with --dry-run, and use --yes", exit_code=USAGE
        )
    who = by_or_user(by)

    async def send(client: "Client") -> int:
        from sojourn.cli.screen.prompt import ask_yes

        if dry_run or asks:
            count = await _preview(client, verb, run_ids, as_json=as_json)
            if dry_run:
                return OK
            if not count:
                return FAILED
            if not await ask_yes(f"{action.capitalize()} {count_noun(count, 'run')}?"):
                print("nothing was changed")
                return OK
        return await _act(client, verb, run_ids, why, who, as_json=as_json)

    return with_client(send)


async def _preview(client: "Client", action: "BulkAction", run_ids: list[str], *, as_json: bool) -> int:
    """Print which runs an action would change, and return their number."""
    from sojourn.client.bulk import can_act, each_status

    found = await each_status(client, run_ids)
    applies = {run_id: can_act(action, status) for run_id, status in found.items()}
    for run_id, status in found.items():
        if as_json:
            print(json.dumps({"run_id": run_id, "status": status or None, "applies": applies[run_id]}))
        else:
            note = "" if applies[run_id] else ", is left as it is"
            print(f"{plain(run_id, 300)}: {status or 'not found'}{note}")
    count = sum(applies.values())
    if not as_json:
        print(f"{action.replace('_', ' ')}: {count:,} of {count_noun(len(found), 'run')}")
    return count


async def _act(
    client: "Client", action: "BulkAction", run_ids: list[str], why: str, who: str | None, *, as_json: bool
) -> int:
    from sojourn.client.bulk import MOST_FORKS, act_on_each, retry_once, status_of

    async def retry(run: "Run") -> "Retried":
        async def find(since: "datetime | None") -> list[str]:
            forks = client.list_runs(fork_of=run.id, since=since, limit=MOST_FORKS)
            return [fork.run_id async for fork in forks]

        async def fork(new_id: str) -> "Run":
            return await client.fork(run.id, by=who, new_run_id=new_id)

        return await retry_once(run, find=find, fork=fork)

    results = await act_on_each(
        client,
        action,
        run_ids,
        status_of=lambda run_id: status_of(client, run_id),
        retry=retry,
        by=who,
        reason=why,
    )
    for each in results:
        _print(action, each, who, as_json=as_json)
    return FAILED if any(each.error for each in results) else OK


def _print(action: "BulkAction", result: "BulkResult", who: str | None, *, as_json: bool) -> None:
    from sojourn.client.bulk import ACTIONS

    if result.error:
        failure = failure_of(result.error)
        if as_json:
            fields = {"run_id": result.run_id, "error": failure.name, "message": failure.message}
            print(json.dumps({**failure.more, **fields}))
        else:
            print(f"left alone: {plain(result.run_id, 300)}: {plain(failure.message, 500)}")
        return
    more: dict[str, Any] = {"attempts": result.attempts}
    then = "" if result.attempts is None else f"{count_noun(result.attempts, 'attempt')} began"
    if new := result.retried:
        more = {"new_run_id": new.run_id, "already": new.already or None}
        then = f"{plain(new.run_id, 300)} goes on from it{' already' if new.already else ''}"
    print_done(ACTIONS[action], result.run_id, as_json=as_json, by=who, then=then, **more)


def _read(path: str) -> list[str]:
    place = "standard input" if path == "-" else plain(path)
    lines = [line for _, line in read_lines(path)]
    if not lines:
        raise CommandError(f"{place} names no run", exit_code=USAGE)
    return list(dict.fromkeys(_run_id(line, place) for line in lines))


def _run_id(line: str, place: str) -> str:
    if not line.startswith("{"):
        return line
    try:
        value: Any = loads(line)
    except (ValueError, RecursionError):
        value = {}
    run_id = value.get("run_id")
    if not isinstance(run_id, str) or not run_id:
        raise CommandError(f"{place} has a line without a run_id: {plain(line, 100)}", exit_code=USAGE)
    return run_id

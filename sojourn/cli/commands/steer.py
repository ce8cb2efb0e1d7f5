"""`sojourn pause`, `resume`, `cancel` and `set-aside` let operators control a run."""

from typing import TYPE_CHECKING, Annotated

import typer

from sojourn.cli.client import by_or_user, print_done, with_client
from sojourn.cli.failure import CommandError
from sojourn.cli.options import By, Json, RunId, Why, add_connection_options, connection_options
from sojourn.cli.screen.text import plain, shell_word
from sojourn.values.text import count_noun

if TYPE_CHECKING:
    from sojourn.client.client import Client
    from sojourn.contracts.run import RunStatus

__all__ = ["cancel", "pause", "resume", "set_aside"]


@add_connection_options
def pause(run_id: RunId, why: Why = "", by: By = None, as_json: Json = False) -> int:
    """Pause a run: it starts nothing new, and calls in progress finish.

    \b
    sojourn pause RUN "let me look"
    """
    who = by_or_user(by)

    async def send(client: "Client") -> int:
        await _require_open(client, run_id, "pause", needs_worker=True)
        await client.get_run(run_id).pause(why, by=who)
        return print_done("paused", run_id, as_json=as_json, by=who)

    return with_client(send)


@add_connection_options
def resume(
    run_id: RunId,
    why: Why = "",
    messages: Annotated[
        list[str] | None,
        typer.Option(
            "--message", help="A message to the planner, which begins a new turn. Can be given several times."
        ),
    ] = None,
    by: By = None,
    as_json: Json = False,
) -> int:
    """Resume a paused run.

    \b
    sojourn resume RUN --message "leave s-2 alone"
    """
    who = by_or_user(by)

    async def send(client: "Client") -> int:
        await _require_open(client, run_id, "resume", needs_worker=True)
        run, count = client.get_run(run_id), len(messages or ())
        await run.resume(why, messages=messages or [], by=who)
        turn_id = (await run.status()).turn_id if count else None
        line = f"sojourn watch {shell_word(run_id)}{connection_options()}"
        begun = (
            f"{count_noun(count, 'message')} for the planner, turn {plain(turn_id or '')}; " if count else ""
        )
        then = f"{begun}follow it with: {line}"
        return print_done(
            "resumed", run_id, as_json=as_json, by=who, then=then, messages=count or None, turn_id=turn_id
        )

    return with_client(send)


@add_connection_options
def cancel(run_id: RunId, why: Why = "", by: By = None, as_json: Json = False) -> int:
    """Request that a run cancels, with its tools and child runs.

    \b
    sojourn cancel RUN "no longer needed"
    """
    who = by_or_user(by)

    async def send(client: "Client") -> int:
        # Temporal records the request even if no worker runs.
        await _require_open(client, run_id, "cancel", needs_worker=False)
        await client.get_run(run_id).cancel(why, by=who)
        return print_done("cancel_requested", run_id, as_json=as_json, by=who)

    return with_client(send)


@add_connection_options
def set_aside(
    run_id: RunId,
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="The number of a message, as `show --transcript` prints it; the id of a call, for its result; or the id of a sent message.",
        ),
    ],
    why: Why = "",
    by: By = None,
    as_json: Json = False,
) -> int:
    """Hide a message or a result from planners.

    \b
    sojourn set-aside RUN 12 "spoils every answer"
    sojourn set-aside shop.clerk@desk-1 call_7
    """
    who = by_or_user(by)

    async def send(client: "Client") -> int:
        from sojourn.client.setting_aside import is_plan_under_way, parse_target, quote_target, target_of

        await _require_open(client, run_id, "set aside", needs_worker=True)
        run, named = client.get_run(run_id), parse_target(what)
        messages = await run.transcript()
        words = quote_target(
            messages, await target_of(run_id, messages, lambda: run.events(follow=False), named)
        )
        is_new = await run.set_aside(named, why, by=who)
        status = await run.status()
        is_read = is_plan_under_way(status)
        end = (
            f"; sojourn interrupt {shell_word(run_id)}{connection_options()} ends it"
            if status.conversation
            else ""
        )
        then = "; ".join(
            [
                words,
                *([] if is_new else ["it was set aside before"]),
                *([f"the plan under way still has it{end}"] if is_read else []),
            ]
        )
        return print_done(
            "set_aside",
            run_id,
            as_json=as_json,
            by=who,
            then=then,
            what=what,
            words=words,
            plan_under_way=is_read,
        )

    return with_client(send)


async def _require_open(client: "Client", run_id: str, verb: str, *, needs_worker: bool) -> None:
    from sojourn.cli.waits import require_worker
    from sojourn.client.sending import run_ended

    status: RunStatus = await client.get_run(run_id).status()
    if not status.is_open:
        raise run_ended(run_id, status.status, verb)
    if verb == "resume" and status.status != "paused":
        raise CommandError(
            f"{run_id} is not paused, it is {status.status}; there is nothing to resume", run_id=run_id
        )
    if needs_worker:
        require_worker(status)

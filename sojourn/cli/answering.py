"""The commands that send something to a run, as they are typed."""

from typing import Annotated

import typer

from sojourn.cli.options import By, Json, RunId, Why

__all__ = ["answer", "approve", "cancel", "deny", "pause", "provide", "resume"]

AwaitId = Annotated[
    str | None,
    typer.Argument(metavar="AWAIT_ID", help="Which; may be left out while there is one.", show_default=False),
]
FullOption = Annotated[bool, typer.Option("--full", help="Show all of it, however long.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask; goes with AWAIT_ID.")]
DigestOption = Annotated[
    str | None,
    typer.Option(
        "--digest",
        metavar="DIGEST",
        help="The payload_digest of what was seen elsewhere; goes with AWAIT_ID, shows and asks nothing.",
    ),
]
WhyOption = Annotated[str, typer.Option("--why", metavar="WHY", help="Why; the planner reads it.")]


def answer(
    run: RunId,
    await_id: Annotated[
        str | None,
        typer.Argument(
            metavar="AWAIT_ID", help="Which question, where several are open.", show_default=False
        ),
    ] = None,
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="TEXT", help="What to say; one word alone, or in quotes, is this.", show_default=False
        ),
    ] = None,
    field: Annotated[
        list[str] | None,
        typer.Option("--field", metavar="NAME=VALUE", help="Answer by field; may be given several times."),
    ] = None,
    json_values: Annotated[
        str | None, typer.Option("--json-values", metavar="OBJECT", help="Answer by field, as JSON.")
    ] = None,
    decline: Annotated[bool, typer.Option("--decline", help="Say that there will be no answer.")] = False,
    why: Annotated[str, typer.Option("--why", metavar="WHY", help="With --decline: why.")] = "",
    by: By = None,
    json: Json = False,
) -> None:
    """Answer a question of a run, or of a child run.

    \b
    sojourn answer RUN "next Tuesday"
    sojourn answer RUN --field site=s-1 --field urgent=true
    sojourn answer RUN --decline --why "not mine to say"
    """
    from sojourn.cli.answer_command import run_answer

    raise typer.Exit(
        run_answer(
            run,
            [word for word in (await_id, text) if word is not None],
            fields=field or [],
            json_values=json_values,
            decline=decline,
            why=why,
            by=by,
            as_json=json,
        )
    )


def approve(
    run: RunId,
    await_id: AwaitId = None,
    full: FullOption = False,
    yes: YesOption = False,
    digest: DigestOption = None,
    for_run: Annotated[
        bool, typer.Option("--for-run", help="And stop asking about this tool in this run.")
    ] = False,
    why: WhyOption = "",
    by: By = None,
    json: Json = False,
) -> None:
    """Let a call run that a person is asked about: it is shown, and you are asked.

    \b
    sojourn approve RUN
    sojourn approve RUN AWAIT_ID --full
    sojourn approve RUN AWAIT_ID --yes --for-run --by ana
    """
    from sojourn.cli.decide_command import Decision, run_decide

    decision = Decision(
        run, await_id, True, why, by, for_run=for_run, digest=digest, full=full, yes=yes, as_json=json
    )
    raise typer.Exit(run_decide(decision))


def deny(
    run: RunId,
    await_id: AwaitId = None,
    full: FullOption = False,
    yes: YesOption = False,
    digest: DigestOption = None,
    why: WhyOption = "",
    by: By = None,
    json: Json = False,
) -> None:
    """Do not let a call run; the planner is told why. It is shown, and you are asked.

    \b
    sojourn deny RUN --why "not before Monday"
    """
    from sojourn.cli.decide_command import Decision, run_decide

    decision = Decision(run, await_id, False, why, by, digest=digest, full=full, yes=yes, as_json=json)
    raise typer.Exit(run_decide(decision))


def provide(
    run: RunId,
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            help='JSON, - is standard input: {"tool_call_id": ..., "result": ...} or "error"; one, a list, or one a line.',
            show_default=False,
        ),
    ] = None,
    result: Annotated[
        list[str] | None,
        typer.Option(
            "--result", metavar="CALL=JSON", help="The result of one call; may be given several times."
        ),
    ] = None,
    error: Annotated[
        list[str] | None,
        typer.Option("--error", metavar="CALL=TEXT", help="Why one call failed; may be given several times."),
    ] = None,
    by: By = None,
    json: Json = False,
) -> None:
    """Send results of calls that are executed outside.

    With none given, says which are waited for.

    \b
    sojourn provide RUN --result call-1=2.5
    sojourn provide RUN results.json
    """
    from sojourn.cli.provide_command import run_provide

    raise typer.Exit(run_provide(run, file, results=result or [], errors=error or [], by=by, as_json=json))


def pause(run: RunId, why: Why = "", by: By = None, json: Json = False) -> None:
    """Start nothing new in a run; what is at work finishes.

    \b
    sojourn pause RUN "let me look"
    """
    from sojourn.cli.steer_command import run_pause

    raise typer.Exit(run_pause(run, why, by=by, as_json=json))


def resume(
    run: RunId,
    why: Why = "",
    message: Annotated[
        list[str] | None,
        typer.Option(
            "--message", help="Say this to the planner; begins a new turn. May be given several times."
        ),
    ] = None,
    by: By = None,
    json: Json = False,
) -> None:
    """Let a paused run go on.

    \b
    sojourn resume RUN --message "leave s-2 alone"
    """
    from sojourn.cli.steer_command import run_resume

    raise typer.Exit(run_resume(run, why, messages=message or [], by=by, as_json=json))


def cancel(run: RunId, why: Why = "", by: By = None, json: Json = False) -> None:
    """Ask a run to cancel: its tools and child runs are cancelled too.

    \b
    sojourn cancel RUN "no longer needed"
    """
    from sojourn.cli.steer_command import run_cancel

    raise typer.Exit(run_cancel(run, why, by=by, as_json=json))

"""The commands that look at runs and at what serves them, as they are typed."""

from pathlib import Path
from typing import Annotated

import typer

from sojourn.cli.options import Deltas, Json, RunId, TaskQueue

__all__ = ["doctor", "export", "list_", "show", "watch"]


def list_(
    agent: Annotated[str | None, typer.Option("--agent", metavar="ID", help="Only this agent's.")] = None,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="Only this session's.")
    ] = None,
    status: Annotated[
        str | None,
        typer.Option(
            "--status",
            help="running (waiting and paused ones too), waiting, paused, completed, failed, canceled, terminated or timed_out.",
        ),
    ] = None,
    waiting: Annotated[bool, typer.Option("--waiting", help="Only those that wait for somebody.")] = False,
    stuck: Annotated[
        bool,
        typer.Option(
            "--stuck", help="Only those that fail again and again or that no worker serves, and why."
        ),
    ] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="At most so many.")] = 50,
    json: Json = False,
) -> None:
    """List runs, newest first.

    \b
    sojourn list --waiting
    sojourn list --agent ops.assistant --status failed --json
    """
    from sojourn.cli.list_command import run_list

    raise typer.Exit(
        run_list(
            agent_id=agent,
            session_id=session,
            status=status,
            waiting=waiting,
            stuck=stuck,
            limit=limit,
            as_json=json,
        )
    )


def export(
    run: RunId,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Where to; a folder of the run's name when left out."),
    ] = None,
    children: Annotated[
        bool, typer.Option("--children", help="And the child runs, below children/.")
    ] = False,
    app: Annotated[
        str | None,
        typer.Option(
            "--app", metavar="MODULE:APP", help="Whose storage holds what is too large for a history."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over an earlier export.")] = False,
    json: Json = False,
) -> None:
    """Write a run's transcript, events and artifacts as JSONL.

    What Temporal keeps of a run ends with the namespace's retention.

    \b
    sojourn export RUN --out archive/RUN --children
    """
    from sojourn.cli.export_command import run_export

    raise typer.Exit(run_export(run, out=out, children=children, target=app, force=force, as_json=json))


def doctor(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="MODULE:APP",
            help="Load this app too, and ask its MCP servers and task queues.",
            show_default=False,
        ),
    ] = None,
    task_queue: TaskQueue = None,
    json: Json = False,
) -> None:
    """Check what runs need, and say what to do.

    The server, the namespace, its search attributes, workers, the clock, settings and versions; the app, when named.

    \b
    sojourn doctor worker:app
    """
    from sojourn.cli.doctor_command import run_doctor

    raise typer.Exit(run_doctor(target, task_queue=task_queue, as_json=json))


def show(
    run: RunId,
    transcript: Annotated[
        bool, typer.Option("--transcript", help="What was said, as the planner is given it.")
    ] = False,
    events: Annotated[bool, typer.Option("--events", help="What happened, one event a line.")] = False,
    safeguards: Annotated[
        bool, typer.Option("--safeguards", help="Which errors were seen, and whether retrying was stopped.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="What it waits for in full, however long.")] = False,
    json: Json = False,
) -> None:
    """Show a run as it stands, or as it ended, as a tree.

    \b
    sojourn show RUN
    sojourn show RUN --transcript
    """
    from sojourn.cli.show_command import show_run

    if transcript + events + safeguards > 1:
        raise typer.BadParameter("choose one of --transcript, --events and --safeguards")
    raise typer.Exit(
        show_run(run, transcript=transcript, events=events, safeguards=safeguards, full=full, as_json=json)
    )


def watch(
    run: RunId,
    after: Annotated[
        str | None, typer.Option("--after", metavar="EVENT_ID", help="Only what comes after this event.")
    ] = None,
    json: Json = False,
    deltas: Deltas = False,
) -> None:
    """Follow a run to its end, answering its questions.

    \b
    sojourn watch RUN
    """
    from sojourn.cli.run_command import watch_run

    raise typer.Exit(watch_run(run, after=after, json=json, deltas=deltas))

"""`sojourn show` prints a run as a tree, or its transcript, events or safeguards."""

import json
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli.client import with_client
from sojourn.cli.failure import OK, USAGE, CommandError
from sojourn.cli.options import LAST_TURNS, Json, RunId, Verbose, add_connection_options, connection_options
from sojourn.cli.screen.text import format_duration, local, plain, shell_word

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from rich.console import Console

    from sojourn.client.client import Client
    from sojourn.client.run import Run
    from sojourn.contracts.event import Event
    from sojourn.contracts.run import RunStatus, Safeguards

__all__ = ["show"]

LAST = 200
"""Maximum number of a run's own lines and calls to print, the last ones."""

MAX_FORKS = 10
"""Maximum number of a run's forks to print. `list --fork-of` lists all."""


@add_connection_options
def show(
    run_id: RunId,
    transcript: Annotated[
        bool, typer.Option("--transcript", help="Print the messages, as the planner gets them.")
    ] = False,
    events: Annotated[bool, typer.Option("--events", help="Print the events, one a line.")] = False,
    safeguards: Annotated[
        bool,
        typer.Option(
            "--safeguards",
            help="Print the errors that the safeguards count, and whether they stopped retrying.",
        ),
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Print open waits whole, even if they are long.")
    ] = False,
    last: Annotated[
        int | None,
        typer.Option(
            "--last",
            metavar="N",
            min=1,
            help=f"Only the last N calls, events or messages. Default: {LAST} calls. For the tree of a conversation: "
            f"the last N turns whole. Default: {LAST_TURNS}.",
        ),
    ] = None,
    turn: Annotated[
        str | None,
        typer.Option("--turn", metavar="ID", help="For a conversation: print only this turn, such as t4."),
    ] = None,
    draws_all: Annotated[
        bool, typer.Option("--all", help="Print every turn of a conversation whole, and every call.")
    ] = False,
    verbose: Verbose = 0,
    as_json: Json = False,
) -> int:
    """Show the current state of a run, as a tree.

    \b
    sojourn show RUN
    sojourn show RUN --transcript --last 5
    sojourn show AGENT@SESSION --turn t4
    """
    if transcript + events + safeguards > 1:
        raise typer.BadParameter("give only one of --transcript, --events and --safeguards")
    if (turn or draws_all) and (transcript or events or safeguards or as_json):
        raise typer.BadParameter("--turn and --all are for the tree: leave them out with the other options")
    if bool(turn) + draws_all + bool(last) > 1:
        raise typer.BadParameter("give only one of --turn, --all and --last")

    async def print_run(client: "Client") -> int:
        run = client.get_run(run_id)
        if transcript:
            await _transcript(run, last, as_json=as_json)
        elif events:
            await _events(run, last, as_json=as_json)
        elif safeguards:
            _safeguards(await run.status(), as_json=as_json)
        elif as_json:
            await _print_json(run)
        else:
            await _tree(client, run, _TreeExtent(last, turn, draws_all=draws_all), full=full, verbose=verbose)
        return OK

    return with_client(print_run)


async def _print_json(run: "Run") -> None:
    from sojourn.answers import status_view

    status = await run.status()
    output = (await run.result()).model_dump(mode="json") if status.status == "completed" else None
    shown = status_view(status).model_dump(mode="json")
    print(json.dumps({**shown, "output": output}, ensure_ascii=False))


@dataclass(frozen=True, slots=True)
class _TreeExtent:
    last: int | None
    """The last turns of a conversation, or the last calls of another run."""
    turn: str | None
    draws_all: bool

    def calls(self, status: "RunStatus") -> int | None:
        if self.draws_all or self.turn:
            return None
        return LAST if status.conversation else self.last or LAST

    def turns(self) -> int | None:
        return None if self.draws_all else self.last or LAST_TURNS


async def _tree(client: "Client", run: "Run", part: _TreeExtent, *, full: bool, verbose: int) -> None:
    from rich.console import Console
    from rich.text import Text

    from sojourn.cli.outcome import retry_hint
    from sojourn.cli.screen.calls import Detail
    from sojourn.cli.screen.lines import usage_text
    from sojourn.cli.screen.run_trees import RunTrees
    from sojourn.cli.screen.text import Line
    from sojourn.values.text import count_noun

    console = Console(highlight=False)
    status = await run.status()
    if part.turn and not status.conversation:
        raise CommandError(f"{plain(run.id, 300)} is no conversation, and has no turns", exit_code=USAGE)
    trees = RunTrees(
        run.id,
        whole=full,
        detail=Detail(min(verbose, Detail.ALL)),
        last=part.turns(),
        only=part.turn,
        is_conversation=status.conversation,
    )
    async for event in run.events(follow=False, children=True):
        trees.feed(event)
        if event.type == "run_completed" and event.run_id == run.id and event.output:
            trees.say(Line(f"  {usage_text(event.output)}", "dim"))
    if part.turn and not trees.has_drawn:
        known = f"its last turn is {plain(trees.last_turn_id)}" if trees.last_turn_id else "it had none yet"
        raise CommandError(f"{plain(run.id, 300)} has no turn {plain(part.turn)}; {known}")
    console.print(Text(f"{_state(status, trees.last_turn_id)}, {_times(status)}", "bold"))
    if forks := await _forks(client, run.id):
        console.print(Text(f"forks: {', '.join(plain(each, 300) for each in forks)}", "dim"), soft_wrap=True)
    calls = part.calls(status)
    if calls is not None and (left_out := trees.keep(calls)):
        more = "--all" if status.conversation else "--last N"
        text = f"{count_noun(left_out, 'call')} above {'is' if left_out == 1 else 'are'} left out; {more} draws more"
        console.print(Text(text, "dim"))
    console.print(trees)
    _below(console, run.id, status, full=full)
    if line := await retry_hint(client, trees.timelines.top):
        console.print(Text(line, "yellow"), soft_wrap=True)


async def _forks(client: "Client", run_id: str) -> list[str]:
    from sojourn.errors import InvalidInput

    try:
        return [each.run_id async for each in client.list_runs(fork_of=run_id, limit=MAX_FORKS)]
    except InvalidInput:
        return []


def _below(console: "Console", run_id: str, status: "RunStatus", *, full: bool) -> None:
    from rich.text import Text

    from sojourn.answers import describe_taint, open_waits
    from sojourn.cli.screen.waits import texts_of
    from sojourn.cli.waits import answer_lines
    from sojourn.client.readable_run import CANCEL_REQUESTED

    is_canceling = CANCEL_REQUESTED in status.hints
    for wait in open_waits(status):
        # The tree has no open waits of child runs.
        missing = texts_of(wait).lines(wait, full) if wait.run_id != run_id else ()
        for line in missing:
            console.print(Text(line.text, style=line.style), soft_wrap=True)
        if is_canceling:
            continue
        console.print(Text(f"answer with: {answer_lines(wait)[0]}", "yellow"), soft_wrap=True)
    if status.taint and status.taint.is_active:
        console.print(Text(describe_taint(status.taint), "dim"), soft_wrap=True)
    if status.paused is not None:
        line = f"sojourn resume {shell_word(run_id)}{connection_options()}"
        console.print(Text(f"resume with: {line}", "yellow"), soft_wrap=True)
    if status.safeguards:
        console.print(Text("safeguards:", "dim"))
        for line in _safeguard_lines(status.safeguards):
            console.print(Text(f"  {line}", "dim"), soft_wrap=True)
    for hint in status.hints:
        console.print(Text(f"! {plain(hint, 1_000)}", "bold red"), soft_wrap=True)


async def _events(run: "Run", last: int | None, *, as_json: bool) -> None:
    from rich.console import Console
    from rich.text import Text

    from sojourn.answers import event_line
    from sojourn.cli.screen.lines import lines_of

    console = Console(highlight=False)
    events = run.events(follow=False, children=True)
    async for event in _last(events, last) if last else events:
        if as_json:
            print(event_line(event))
            continue
        about = event.text if event.type == "run_failed" else None  # the error and its causes on one line
        about = about or next((line.text for line in lines_of(event)), "")
        call = getattr(event, "tool_call_id", "")
        name = getattr(event, "tool_name", "")
        shown = about or " ".join(part for part in (name, call) if part)
        at = event.time.astimezone().strftime("%H:%M:%S.%f")[:-3]
        below = "  " if event.parent_tool_call_id else ""
        line = f"{event.event_id}  {at}  {below}{event.type:22}{plain(shown)}"
        console.print(Text(line.rstrip()), soft_wrap=True)


async def _last(events: "AsyncIterator[Event]", last: int) -> "AsyncGenerator[Event]":
    kept: deque[Event] = deque(maxlen=last)
    async for event in events:
        kept.append(event)
    for event in kept:
        yield event


async def _transcript(run: "Run", last: int | None, *, as_json: bool) -> None:
    from rich.console import Console
    from rich.text import Text

    from sojourn.cli.screen.lines import MessageLines

    console = Console(highlight=False)
    messages = await run.transcript()
    first = max(0, len(messages) - last) if last else 0
    lines = MessageLines(messages[:first])
    for number, message in enumerate(messages[first:], first):
        if as_json:
            print(message.model_dump_json(exclude_defaults=True))
            continue
        console.print(Text(f"{message.role}: ", style="bold") + Text(f"#{number}", style="dim"))
        for line in lines.of(message):
            console.print(Text(f"  {line}"), soft_wrap=True)


def _safeguards(status: "RunStatus", *, as_json: bool) -> None:
    found = status.safeguards
    if as_json:
        print(found.model_dump_json() if found else "null")
        return
    if found is None:
        print("no error so far")
        return
    print("\n".join(_safeguard_lines(found)))


def _safeguard_lines(found: "Safeguards") -> list[str]:
    stopped = ", retrying was stopped" if found.stopped else ""
    loop = [f"loop: {plain(found.loop, 500)}"] if found.loop else []
    return [
        f"class of the last error: {found.category or 'none'}",
        f"similar errors in a row: {found.similar}{stopped}",
        *loop,
        *(f"- {_error_line(error)}" for error in found.errors),
    ]


def _error_line(error: dict[str, Any]) -> str:
    matched = error.get("matched")
    by = f", by {plain(matched)!r}" if matched else ""
    text = f"{plain(error.get('tool', ''))}: {plain(error.get('message', ''), 500)}"
    return f"{text} ({plain(error.get('category', '') or 'of no class')}{by})"


def _state(status: "RunStatus", turn_id: str = "") -> str:
    from sojourn.values.text import count_noun

    phase = f" ({status.phase.replace('_', ' ')})" if status.status == "running" and status.phase else ""
    state = f"gave up: {status.gave_up}" if status.gave_up else f"{status.status.replace('_', ' ')}{phase}"
    if not status.conversation:
        return state
    is_between = status.closed_at is not None or status.phase == "idle"
    return (
        f"{state} after {count_noun(status.turns, 'turn')}"
        if is_between
        else f"{state} in turn {plain(turn_id)}"
    )


def _times(status: "RunStatus") -> str:
    if status.started_at is None:
        return "not started"
    end = status.closed_at or datetime.now(UTC)
    return f"{format_duration(end - status.started_at)}{'' if status.closed_at else ' so far'}, since {local(status.started_at)}"

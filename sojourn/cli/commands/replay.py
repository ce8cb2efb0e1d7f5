"""`sojourn replay` says what a deploy of an app would do to recorded runs."""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli.arguments import parse_since
from sojourn.cli.client import with_client
from sojourn.cli.failure import FAILED, OK, USAGE, CommandError
from sojourn.cli.options import Json, Target, add_connection_options, load_app, queue_for
from sojourn.cli.screen.text import plain
from sojourn.values.text import count_noun

if TYPE_CHECKING:
    from sojourn.authoring.app import App
    from sojourn.client.client import Client
    from sojourn.replay import RunReport, Source

__all__ = ["replay"]

MAX_PRINTED = 50
"""Most runs whose findings are printed."""

MAX_TEXT = 2_000
"""Longest finding that is printed, in characters."""

MAX_DETAIL = 40
"""Most lines of a difference that are printed."""


@add_connection_options
def replay(
    target: Target,
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE|DIR|RUN",
            help="Histories, folders of them, or ids of runs of the server.",
            show_default=False,
        ),
    ] = None,
    open_runs: Annotated[
        bool, typer.Option("--open", help="Every open run of the app's task queue on the server.")
    ] = False,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="WHEN",
            help="As --open, and the runs that began since: 2h, 7d, or an ISO date.",
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=100_000, help="The maximum number of runs of the server.")
    ] = 5_000,
    no_plans: Annotated[
        bool, typer.Option("--no-plans", help="Do not ask the planners in code what they decide now.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail for notes too, such as plans that are others now.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Replay recorded runs on this code and app, and say what a deploy would do to them.

    It runs no tool and asks no model. The exit code is 1 if a run would fail, wait for ever, or repeat an effect or pass one by.

    \b
    sojourn replay worker:app tests/histories
    sojourn replay worker:app --since 7d
    """
    app = load_app(target)
    moment = parse_since(since) if since else None
    on_server = open_runs or since is not None
    if not what and not on_server:
        raise CommandError(
            "name histories, folders or runs, or give --open or --since for those of the server",
            exit_code=USAGE,
        )
    files, run_ids = _split(what or [])

    async def main(client: "Client | None") -> int:
        from sojourn.replay import source_of_file

        sources = [source_of_file(file) for file in files]
        if client:
            queue = queue_for(app, target) if on_server else None
            sources += await _sources_on_server(client, run_ids, queue, moment, limit)
        outcome = _Outcome(as_json=as_json, strict=strict)
        with _progress(len(sources)) as tell:
            async for report in _reports(app, client, sources, plans=not no_plans):
                outcome.add(report)
                tell(outcome.runs)
        return outcome.end()

    return with_client(main) if on_server or run_ids else asyncio.run(main(None))


def _split(what: Sequence[str]) -> tuple[list[Path], list[str]]:
    """Return the files, and the ids of runs."""
    from sojourn.replay import files_in

    files, run_ids = list[Path](), list[str]()
    for each in what:
        path = Path(each)
        if not path.exists() and path.suffix != ".json":
            run_ids.append(each)
            continue
        try:
            files += files_in(path)
        except FileNotFoundError as error:
            raise CommandError(str(error), exit_code=USAGE) from error
    return files, run_ids


async def _sources_on_server(
    client: "Client", run_ids: Sequence[str], queue: str | None, since: datetime | None, limit: int
) -> "list[Source]":
    from sojourn.replay import runs_on_server, source_of_run

    found = list(run_ids)
    if queue:
        async for run_id in runs_on_server(client.temporal, queue, since):
            if len(found) >= limit + len(run_ids):
                break
            found.append(run_id)
    return [source_of_run(client.temporal, run_id) for run_id in dict.fromkeys(found)]


async def _reports(
    app: "App", client: "Client | None", sources: "Sequence[Source]", *, plans: bool
) -> "AsyncGenerator[RunReport]":
    from sojourn.connection.connect import converter_with
    from sojourn.replay import Replay

    converter = client.temporal.data_converter if client else converter_with()
    async with Replay(app, converter, plans=plans) as replaying:
        async for report in replaying.reports(sources):
            yield report


class _Outcome:
    """Prints reports, and counts them."""

    def __init__(self, *, as_json: bool, strict: bool) -> None:
        self._as_json = as_json
        self._strict = strict
        self._printed = 0
        self.runs = 0
        self._counts: Counter[str] = Counter()
        self._bad = 0
        """Runs with a problem, or with a note if notes fail."""

    def add(self, report: "RunReport") -> None:
        self.runs += 1
        self._counts.update(
            open=report.is_open,
            problems=len(report.problems),
            notes=len(report.notes),
            plans=report.plans,
            plans_by_model=report.plans_by_model,
        )
        self._bad += bool(report.problems or (self._strict and report.notes))
        if self._as_json:
            print(json.dumps(report.to_json(), ensure_ascii=False))
        elif report.findings:
            self._printed += 1
            if self._printed <= MAX_PRINTED:
                print("\n".join(_lines(report)))

    def end(self) -> int:
        """Print the totals, and return the exit code."""
        code = FAILED if self._bad else OK
        if self._as_json:
            totals: dict[str, Any] = {
                "ok": code == OK,
                "runs": self.runs,
                "failed": self._bad,
                **self._counts,
            }
            print(json.dumps(totals))
            return code
        if self._printed > MAX_PRINTED:
            print(
                f"and {count_noun(self._printed - MAX_PRINTED, 'more run')} with findings; --json prints all"
            )
        print(self._totals())
        return code

    def _totals(self) -> str:
        counts = self._counts
        told = [
            f"{count_noun(self.runs, 'run')} replayed, {counts['open']:,} of them open",
            f"{count_noun(counts['plans'], 'plan')} made again",
        ]
        if counts["plans_by_model"]:
            told.append(f"{counts['plans_by_model']:,} of models not")
        if not counts["problems"] and not counts["notes"]:
            return f"{', '.join(told)}: no differences"
        found = [f"{count_noun(counts['problems'], 'problem')}", f"{count_noun(counts['notes'], 'note')}"]
        return f"{', '.join(told)}: {', '.join(found)}"


def _lines(report: "RunReport") -> list[str]:
    run = "" if report.run_id in ("", report.source) else f" · {plain(report.run_id, 300)}"
    state = " · open" if report.is_open else ""
    lines = [f"{'✗' if report.problems else '·'} {plain(report.source, 500)}{run}{state}"]
    for each in report.findings:
        note = "" if each.is_problem else " (note)"
        lines.append(f"    {each.kind}{note}: {plain(each.text, MAX_TEXT)}")
        detail = each.detail.splitlines()
        lines += [f"        {plain(line, 500)}" for line in detail[:MAX_DETAIL]]
        if len(detail) > MAX_DETAIL:
            lines.append(f"        … {len(detail) - MAX_DETAIL} more lines")
    return lines


@contextlib.contextmanager
def _progress(total: int) -> Generator[Callable[[int], None]]:
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal or total < 20:
        yield lambda _done: None
        return
    with console.status(Text("replaying")) as status:
        yield lambda done: status.update(Text(f"replaying: {done:,} of {total:,}"))

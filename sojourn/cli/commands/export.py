"""`sojourn export` writes a run to files, which outlive the namespace's retention.

The files move to their folder after everything is read, so an interrupted export leaves nothing behind.
"""

import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self, cast

import typer

from sojourn.cli.client import with_client
from sojourn.cli.failure import OK, USAGE, CommandError
from sojourn.cli.options import Json, RunId, add_connection_options
from sojourn.cli.screen.text import plain
from sojourn.private import private_folder, private_opener, write_private
from sojourn.values.text import count_noun

if TYPE_CHECKING:
    from sojourn.client.access import Access
    from sojourn.client.client import Client, Run
    from sojourn.contracts.event import Event
    from sojourn.contracts.tool_result import Artifact

__all__ = ["export"]

FILES = ("run.json", "transcript.jsonl", "events.jsonl", "artifacts.jsonl")
"""Files with the run's status, messages, events, and artifacts with their data."""

CHILDREN = "children"
"""Folder with a folder for each child run, named by the id of its call."""


@add_connection_options
def export(
    run_id: RunId,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="The folder to write to. Default: a folder with the run's id as its name.",
        ),
    ] = None,
    children: Annotated[
        bool, typer.Option("--children", help="Also export the child runs, to children/.")
    ] = False,
    history: Annotated[
        Path | None,
        typer.Option(
            "--history",
            metavar="FILE",
            help="Write only Temporal's history of all executions, to this file. Tests can replay it.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an earlier export.")] = False,
    as_json: Json = False,
) -> int:
    """Write a run's transcript, events and artifacts as JSONL.

    Temporal deletes a closed run when the namespace's retention ends.

    \b
    sojourn export RUN --out archive/RUN --children
    sojourn export RUN --history tests/histories/refund.json
    """
    if history:
        if out or children:
            raise CommandError("--history writes one file; leave out --out and --children", exit_code=USAGE)
        return _export_history(run_id, history, force=force, as_json=as_json)
    folder = out or Path(_safe(run_id))
    _refuse_overwriting(folder, children=children, force=force)

    async def main(client: "Client") -> int:
        import tempfile

        await client.get_run(run_id).status()  # an unknown run leaves no folder behind
        made = not folder.exists()
        try:
            private_folder(folder)
        except OSError as error:
            raise CommandError(f"cannot make the folder {folder}: {error.strerror or error}") from error
        work = Path(tempfile.mkdtemp(prefix=".export-", dir=folder))
        try:
            with _progress() as report:
                written = await _write(client.get_run(run_id), work, folder, children=children, report=report)
            _move(work, folder)
        except BaseException:
            shutil.rmtree(work, ignore_errors=True)
            if made:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        return _print_export(written, as_json=as_json)

    return with_client(main)


def _export_history(run_id: str, file: Path, *, force: bool, as_json: bool) -> int:
    """Write a run's history, without stack traces: they name a worker's files."""
    if file.exists() and not force:
        raise CommandError(f"{file} exists; choose another, or overwrite it with --force", exit_code=USAGE)

    async def main(client: "Client") -> int:
        from temporalio.service import RPCError

        from sojourn.connection.rpc_errors import translate_error
        from sojourn.events.one_run import export_histories, fetch_histories

        await client.get_run(run_id).status()  # an unknown run leaves no file behind
        try:
            histories = await fetch_histories(client.temporal, run_id)
        except RPCError as error:
            raise translate_error(error, run_id) from error
        stored, count = (
            _without_traces(export_histories(histories)),
            sum(len(each.events) for each in histories),
        )
        try:
            private_folder(file.parent)
            write_private(file, json.dumps(stored, indent=1, ensure_ascii=False) + "\n")
        except OSError as error:
            raise CommandError(f"cannot write {file}: {error.strerror or error}") from error
        if as_json:
            print(json.dumps({"run_id": run_id, "history": str(file), "events": count}))
        else:
            print(f"{file}: {count_noun(count, 'history event')} of {plain(run_id, 300)}")
        return OK

    return with_client(main)


def _without_traces(value: Any) -> Any:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {name: _without_traces(inner) for name, inner in fields.items() if name != "stackTrace"}
    return (
        [_without_traces(inner) for inner in cast("list[Any]", value)] if isinstance(value, list) else value
    )


@dataclass(slots=True)
class Export:
    """One exported run, with its child runs."""

    run_id: str
    folder: Path
    status: str = ""
    messages: int = 0
    events: int = 0
    artifacts: int = 0
    missing: list[str] = field(default_factory=list[str])
    """References of artifacts whose data could not be read."""
    children: list["Export"] = field(default_factory=list["Export"])

    def to_json(self) -> dict[str, Any]:
        return {
            "run_id": self.run_id,
            "folder": str(self.folder),
            "status": self.status,
            "messages": self.messages,
            "events": self.events,
            "artifacts": self.artifacts,
            "missing": self.missing,
            "children": [child.to_json() for child in self.children],
        }

    def flat(self) -> "list[Export]":
        """Return this export and those of all child runs."""
        return [self, *(below for child in self.children for below in child.flat())]

    def all_missing(self) -> list[str]:
        return [ref for export in self.flat() for ref in export.missing]


def _safe(id: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.@=+-]", "_", id).lstrip(".") or "run"


def _choose_name(name: str, folder: Path) -> str:
    """Return an unused name. Different ids can have the same safe name."""
    while (folder / name).exists():
        name += "_"
    return name


def _refuse_overwriting(folder: Path, *, children: bool, force: bool) -> None:
    names = (*FILES, *([CHILDREN] if children else []))
    there = [name for name in names if (folder / name).exists()]
    if there and not force:
        raise CommandError(
            f"{folder} already has {', '.join(there)}; choose another --out, or overwrite with --force",
            exit_code=USAGE,
        )


async def _write(
    run: "Run", work: Path, folder: Path, *, children: bool, report: Callable[[str], None]
) -> Export:
    """Write a run's files to `work`. The caller moves them to `folder`."""
    from sojourn.answers import event_line, status_view
    from sojourn.client.client import Run
    from sojourn.errors import RunNotFound

    export = Export(run.id, folder)
    links: dict[str, str] = {}
    seen: set[str] = set()
    with (
        _JsonLinesFile(work / "events.jsonl") as events,
        _JsonLinesFile(work / "artifacts.jsonl") as artifacts,
    ):
        async for event in run.events(follow=False):
            events.write(event_line(event))
            if events.count % 100 == 0:
                report(f"{plain(run.id)}: {events.count:,} events")
            if event.type == "agent_run_started":
                links[event.tool_call_id] = event.run_link.run_id
            for artifact in _artifacts_of(event):
                if artifact.ref not in seen:
                    seen.add(artifact.ref)
                    whole = await _whole(run.client, artifact, export)
                    artifacts.write(whole.model_dump_json(exclude_defaults=True))
        export.events, export.artifacts = events.count, artifacts.count
    with _JsonLinesFile(work / "transcript.jsonl") as transcript:
        for message in await run.transcript():
            transcript.write(message.model_dump_json(exclude_defaults=True))
        export.messages = transcript.count
    status = await run.status()
    export.status = status.status
    text = status_view(status).model_dump_json(indent=2)
    write_private(work / "run.json", text + "\n")
    for call_id, child_id in links.items() if children else ():
        name = _choose_name(_safe(call_id), work / CHILDREN)
        below, place = work / CHILDREN / name, folder / CHILDREN / name
        private_folder(below)
        child = Run(run.client, child_id)
        try:
            export.children.append(await _write(child, below, place, children=True, report=report))
        except RunNotFound:  # Temporal has deleted it
            shutil.rmtree(below)
            export.children.append(Export(child_id, place, status="not_found"))
    return export


class _JsonLinesFile:
    def __init__(self, path: Path) -> None:
        self._file = open(path, "w", encoding="utf-8", opener=private_opener)  # noqa: SIM115 - closed on exit
        self.count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._file.close()

    def write(self, line: str) -> None:
        self._file.write(line + "\n")
        self.count += 1


def _artifacts_of(event: "Event") -> "list[Artifact]":
    if event.type != "tool_end":
        return []
    return [each for each in event.artifacts if each.ref.partition("#")[0] == event.run_id]


async def _whole(client: "Access", artifact: "Artifact", export: "Export") -> "Artifact":
    """Return an artifact with its data from storage, or note that it is missing."""
    from pydantic_core import from_json

    from sojourn.storage import codec_for, load

    if artifact.claim is None:
        return artifact
    try:
        if client.storage is None:
            raise LookupError("no storage")
        run_id = artifact.ref.partition("#")[0]
        codec = codec_for(client.temporal.data_converter, client.temporal.namespace, run_id)
        data = from_json(await load(client.storage, artifact.claim, codec))
    except Exception:  # noqa: BLE001 - a storage driver may raise anything, and the rest is still exported
        export.missing.append(artifact.ref)
        return artifact
    return artifact.model_copy(update={"data": data})


def _move(work: Path, folder: Path) -> None:
    try:
        for path in sorted(work.rglob("*")):
            place = folder / path.relative_to(work)
            if path.is_dir():
                private_folder(place)
            else:
                os.replace(path, place)
    except OSError as error:
        raise CommandError(f"cannot write {folder}: {error.strerror or error}") from error
    shutil.rmtree(work, ignore_errors=True)


@contextlib.contextmanager
def _progress() -> Generator[Callable[[str], None]]:
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield lambda _line: None
        return
    with console.status(Text("reading")) as status:
        yield lambda line: status.update(Text(line))


def _print_export(export: Export, *, as_json: bool) -> int:
    missing = export.all_missing()
    if as_json:
        print(json.dumps(export.to_json()))
    else:
        for each in export.flat():
            written = ", ".join(
                [
                    count_noun(each.messages, "message"),
                    count_noun(each.events, "event"),
                    count_noun(each.artifacts, "artifact"),
                ]
            )
            print(f"{each.folder}: {written} of {plain(each.run_id, 300)} ({each.status})")
    if not missing:
        return OK
    raise CommandError(
        f"the data of {count_noun(len(missing), 'artifact')} is in external storage and could not be read "
        f"({plain(missing[0])}); everything else is written. Name the app with this storage: --app MODULE:APP --force",
        run_id=export.run_id,
        missing=missing,
    )

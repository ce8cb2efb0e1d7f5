"""`sojourn catalog` prints the tools of an app, or writes them to files."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli.failure import OK, CommandError
from sojourn.cli.options import Json, Target, load_app
from sojourn.cli.screen.text import plain

if TYPE_CHECKING:
    from sojourn.authoring.app import App
    from sojourn.contracts.tool_spec import ToolSpec

__all__ = ["catalog"]

FILE = "tool_schemas.json"
"""Name of the file with all tools, and of the file in each agent's folder (SR-97)."""

PLAIN_WIDTH = 240
"""Width of an output that is not a terminal, in columns."""


def catalog(
    target: Target,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Write tool_schemas.json to this folder, with all tools, and to AGENT/ with each agent's tools.",
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Show the tools of an app, agent by agent.

    --json prints JSON Schemas, --out writes files.

    \b
    sojourn catalog worker:app --out schemas
    """
    asyncio.run(_print_catalog(load_app(target), out, as_json=as_json))
    return OK


async def _print_catalog(app: "App", out: Path | None, *, as_json: bool) -> None:
    await app.open()
    try:
        for reason in app.unavailable():
            print(f"sojourn: {reason}; its tools are not in the catalog", file=sys.stderr)
        for toolset_id, reasons in app.unusable_tools().items():
            for name, why in reasons.items():
                print(
                    f"sojourn: toolset {toolset_id}: {plain(name, 100)} is left out: {why}", file=sys.stderr
                )
        if out is not None:
            _write(app, out, as_json=as_json)
        elif as_json:
            print(_pretty(app.catalog()))
        else:
            _show(app)
    finally:
        await app.close()


def _write(app: "App", out: Path, *, as_json: bool) -> None:
    """Write a file of all tools, and one for each agent, deterministically."""
    entries = {out / FILE: app.catalog()}
    entries |= {out / agent_id / FILE: app.catalog(agent_id) for agent_id in app.list_agents()}
    for path, catalog in entries.items():
        _write_whole(path, _pretty(catalog) + "\n")
    written = [str(path) for path in entries]
    print(json.dumps({"written": written}) if as_json else "\n".join(written))


def _write_whole(path: Path, text: str) -> None:
    """Write a file atomically, through a temporary file in its folder."""
    import tempfile

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"cannot make the folder {path.parent}: {error.strerror or error}") from error
    place = ""
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as file:
            place = file.name
            file.write(text)
        mask = os.umask(0o022)
        os.umask(mask)
        os.chmod(place, 0o666 & ~mask)
        os.replace(place, path)
    except OSError as error:
        if place:
            Path(place).unlink(missing_ok=True)
        raise CommandError(f"cannot write {path}: {error.strerror or error}") from error


def _pretty(entries: list[dict[str, Any]]) -> str:
    return json.dumps(entries, indent=2, ensure_ascii=False)


def _show(app: "App") -> None:
    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    for agent_id in app.list_agents():
        specs = sorted(app.tool_specs_for_agent(agent_id) or [], key=lambda spec: spec.id)
        tree = Tree(Text(agent_id, style="bold"), guide_style="dim")
        last = None
        for spec in specs:
            toolset = spec.id.toolset_id
            about = app.toolset_description(toolset) if toolset != last else ""
            last = toolset
            if about:
                tree.add(Text(f"{toolset}: {plain(about, 200)}", style="italic"))
            line = Text(spec.id, style="cyan")
            line.append(f"({_fields(spec)})", style="default")
            if marks := _marks(spec, app.approvals(spec, agent_id).get(agent_id)):
                line.append(f"  {marks}", style="dim")
            branch = tree.add(line)
            if spec.description:
                branch.add(Text(plain(" ".join(spec.description.split()), 200), style="dim"))
        if not specs:
            tree.add(Text("no tools", style="dim"))
        console.print(tree)


def _fields(spec: "ToolSpec") -> str:
    from sojourn.values.json_value import expand

    schema = spec.payload.json_schema
    required = schema.get("required", [])
    names = dict.fromkeys(name for part in expand(schema, schema) for name in part.get("properties", {}))
    return plain(", ".join(name if name in required else f"{name}?" for name in names), 80)


def _marks(spec: "ToolSpec", approval: str | None) -> str:
    flags = {
        spec.kind: spec.kind != "service",
        "read-only": spec.annotations.read_only,
        "destructive": spec.annotations.destructive,
        "at most once": spec.annotations.idempotent is False,
        "asks a person": approval == "ask",
        "denied": approval == "deny",
        "bounded": spec.bounded,
        "local": spec.local,
        f"on {spec.task_queue}": spec.task_queue,
    }
    return " · ".join(name for name, given in flags.items() if given)

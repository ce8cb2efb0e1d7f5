"""`sojourn init` creates a folder with a small project that passes its tests."""

import contextlib
import json
import os
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Annotated

import typer

from sojourn.cli.failure import OK, USAGE, CommandError
from sojourn.cli.options import Json

__all__ = ["init"]

TEMPLATE = Path(__file__).parents[1] / "template"
"""Folder with one template of a project for each kind of planner."""

DISTRIBUTION, IDENTIFIER = "my-project", "my_project"
"""The project's name in the template: as a distribution, and as a service in ids."""

NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*\Z")
MAX_NAME = 60
"""Maximum length of a service in an id, in characters."""

_DISTRIBUTION = re.compile(r"[A-Za-z0-9._-]+")
"""Matches the name at the start of a requirement."""

_OWN = ["pytest", "pytest-asyncio", "sojourn"]
"""The direct dependencies of the project."""

UNTOUCHED = {".git", ".venv"}
"""Names that an empty folder may have.

A user may create a repository and an environment before the project.
"""


def init(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="The project, and its new folder. `.` is the current folder."),
    ],
    model: Annotated[
        bool, typer.Option("--model", help="Plan with a language model instead of code.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Create a project: an agent with two tools, and its tests.

    \b
    sojourn init support
    """
    folder = Path(name)
    project = _current_folder().name if name == "." else name
    _check_name(project)
    _check_folder(folder)
    try:
        written = [str(path) for path in _write(TEMPLATE / ("model" if model else "code"), folder, project)]
    except OSError as error:
        raise CommandError(f"cannot write {error.filename}: {error.strerror or error}") from error
    here, there = _next_commands(name, project, model=model)
    if as_json:
        print(json.dumps({"folder": name, "written": written, "next": [*here, there]}))
        return OK
    print("\n".join(f"wrote {path}" for path in written))
    print("\nnext:\n" + "\n".join(f"  {line}" for line in here))
    print(f"and in another terminal:\n  {there}")
    return OK


def _check_name(project: str) -> None:
    if not NAME.match(project) or len(project) > MAX_NAME:
        near = re.sub(r"[^a-z0-9]+", "-", project.lower()).strip("-0123456789")[:MAX_NAME].strip("-")
        like = near if NAME.match(near) else "support"
        raise CommandError(
            f"{project!r} cannot name a project: a name has lower-case letters, digits and single dashes, "
            f"and begins with a letter; try: sojourn init {like}",
            exit_code=USAGE,
        )
    if project.replace("_", "-") in _list_requirements():
        raise CommandError(
            f"the project cannot have the name of {project!r}, which it depends on; choose another",
            exit_code=USAGE,
        )


def _list_requirements() -> set[str]:
    """Return the names of the project's dependencies, which cannot be its own."""
    found: set[str] = set()
    waiting = [*_OWN]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        with contextlib.suppress(PackageNotFoundError):
            lines = [line for line in requires(name) or [] if "extra ==" not in line or name == "sojourn"]
            waiting += [
                re.sub(r"[-_.]+", "-", name.lower())
                for line in lines
                for name in _DISTRIBUTION.findall(line)[:1]
            ]
    return found


def _current_folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise CommandError("the current folder was deleted; change to another one") from error


def _check_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise CommandError(f"{folder} is a file; choose another name, or move it away")
    if folder.is_dir() and (found := {each.name for each in folder.iterdir()} - UNTOUCHED):
        where = "the current folder" if folder == Path() else f"the folder {folder}"
        raise CommandError(
            f"{where} is not empty: it has {min(found)}; choose another name, or an empty folder"
        )


def _write(template: Path, folder: Path, project: str) -> Iterator[Path]:
    for source in sorted(template.rglob("*")):
        # An installer compiles the template's modules too.
        if source.is_dir() or "__pycache__" in source.parts:
            continue
        path = folder / source.relative_to(template)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_text(encoding="utf-8").replace(DISTRIBUTION, project)
        path.write_text(text.replace(IDENTIFIER, _service(project)), encoding="utf-8")
        yield path


def _next_commands(name: str, project: str, *, model: bool) -> tuple[list[str], str]:
    here = ["pip install --editable '.[test]'", "pytest", "sojourn dev worker:app"]
    if name != ".":
        here.insert(0, f"cd {name}")
    if model and not (os.environ.get("SOJOURN_MODEL") or os.environ.get("ANTHROPIC_API_KEY")):
        here.insert(-1, "export ANTHROPIC_API_KEY=...  # or SOJOURN_MODEL, and the key of its provider")
    return here, f'sojourn run {_service(project)}.assistant "Refund A-1"'


def _service(project: str) -> str:
    return project.replace("-", "_")

"""`sojourn catalog`: for people, for machines, and as files (SR-95 to SR-99)."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

APP = '''
from pydantic import Field
from sojourn import Agent, App, PlanResult, Toolset

tools = Toolset("cli.tools")

@tools.tool(tags=["math"], read_only=True, local=True)
def add(a: int = Field(description="The first."), b: int = 0) -> int:
    """Add [bold]two[/bold] numbers."""
    return a + b

@tools.tool(inject=["token"], artifacts={"chart": list[int]})
def about(token: str) -> str:
    return ""

async def plan(turn):
    return PlanResult.final("")

app = App(agents=[Agent("cli.agent", planner=plan, uses=[tools]), Agent("cli.idle", planner=plan)])
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "cli_app.py").write_text(APP)
    return tmp_path


def catalog(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sojourn", "catalog", "cli_app:app", *options],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_people_see_agents_and_what_tools_take(folder: Path) -> None:
    """A tree, in order of the ids, with optional fields marked, and outside text as text."""
    done = catalog(folder)
    assert done.returncode == 0, done.stderr
    assert "cli.tools.add(a, b?)  read-only · local" in done.stdout
    assert "Add [bold]two[/bold] numbers." in done.stdout
    assert "cli.tools.about()" in done.stdout
    assert done.stdout.index("cli.tools.about") < done.stdout.index("cli.tools.add")
    assert "no tools" in done.stdout


def test_machines_get_the_schemas(folder: Path) -> None:
    """The keys of SR-98, nothing of injected fields, artifacts where declared."""
    done = catalog(folder, "--json")
    about, add = json.loads(done.stdout)
    assert list(add) == ["id", "service", "toolset", "title", "description", "tags", "payload", "result"]
    assert (add["id"], add["service"], add["toolset"]) == ("cli.tools.add", "cli", "tools")
    assert add["payload"]["schema"]["properties"]["a"]["description"] == "The first."
    assert about["artifacts"]["chart"]["schema"]["type"] == "array"
    assert "token" not in done.stdout


def test_files_are_the_same_every_time(folder: Path) -> None:
    """One `tool_schemas.json` of all and one an agent, byte for byte equal when written again (SR-97)."""
    done = catalog(folder, "--out", "specs")
    path = folder / "specs" / "cli.agent" / "tool_schemas.json"
    first = path.read_bytes()
    assert str(Path("specs/cli.agent/tool_schemas.json")) in done.stdout
    assert json.loads((folder / "specs/cli.idle/tool_schemas.json").read_text()) == []
    assert json.loads((folder / "specs/tool_schemas.json").read_text()) == json.loads(first)
    again = catalog(folder, "--out", "specs", "--json")
    assert json.loads(again.stdout)["written"][:2] == [
        "specs/tool_schemas.json",
        "specs/cli.agent/tool_schemas.json",
    ]
    assert path.read_bytes() == first
    assert [entry["id"] for entry in json.loads(first)] == ["cli.tools.about", "cli.tools.add"]


def test_what_is_no_app_is_one_line(folder: Path) -> None:
    """As for every command."""
    (folder / "cli_app.py").write_text("app = 1")
    done = catalog(folder)
    assert done.returncode == 2
    assert done.stderr.startswith("sojourn: ")
    assert done.stderr.count("\n") == 1

"""`sojourn catalog`: for people, for machines, and as files (SR-95 to SR-99)."""

import json
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


async def test_people_see_agents_and_what_tools_take(folder, command):
    """A tree, in order of the ids, with optional fields marked, and outside text as text."""
    done = await command("catalog", "cli_app:app")
    assert done.code == 0, done.err
    assert "cli.tools.add(a, b?)  read-only · local" in done.out
    assert "Add [bold]two[/bold] numbers." in done.out
    assert "cli.tools.about()" in done.out
    assert done.out.index("cli.tools.about") < done.out.index("cli.tools.add")
    assert "no tools" in done.out


async def test_machines_get_the_schemas(folder, command):
    """The keys of SR-98, nothing of injected fields, artifacts where declared."""
    done = await command("catalog", "cli_app:app", "--json")
    about, add = done.json
    assert list(add) == ["id", "service", "toolset", "title", "description", "tags", "payload", "result"]
    assert (add["id"], add["service"], add["toolset"]) == ("cli.tools.add", "cli", "tools")
    assert add["payload"]["schema"]["properties"]["a"]["description"] == "The first."
    assert about["artifacts"]["chart"]["schema"]["type"] == "array"
    assert "token" not in done.out


async def test_files_are_the_same_every_time(folder, command):
    """One `tool_schemas.json` of all and one an agent, byte for byte equal when written again (SR-97)."""
    done = await command("catalog", "cli_app:app", "--out", "specs")
    path = folder / "specs" / "cli.agent" / "tool_schemas.json"
    first = path.read_bytes()
    assert str(Path("specs/cli.agent/tool_schemas.json")) in done.out
    assert json.loads((folder / "specs/cli.idle/tool_schemas.json").read_text()) == []
    assert json.loads((folder / "specs/tool_schemas.json").read_text()) == json.loads(first)
    again = await command("catalog", "cli_app:app", "--out", "specs", "--json")
    assert again.json["written"][:2] == [
        "specs/tool_schemas.json",
        "specs/cli.agent/tool_schemas.json",
    ]
    assert path.read_bytes() == first
    assert [entry["id"] for entry in json.loads(first)] == ["cli.tools.about", "cli.tools.add"]


async def test_what_is_no_app_is_one_line(folder, command):
    """As for every command."""
    (folder / "cli_app.py").write_text("app = 1")
    done = await command("catalog", "cli_app:app")
    assert done.code == 2
    assert done.err.startswith("sojourn: ")
    assert done.err.count("\n") == 1

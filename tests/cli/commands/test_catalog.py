"""`sojourn catalog`: as a tree, as JSON and as files (SR-95 to SR-99)."""

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


async def test_the_tree_shows_agents_and_parameters_of_tools(folder, command):
    """The tree is in order of the ids, marks optional fields, and prints descriptions as text."""
    done = await command("catalog", "cli_app:app")
    assert done.code == 0, done.err
    assert "cli.tools.add(a, b?)  read-only · local" in done.out
    assert "Add [bold]two[/bold] numbers." in done.out
    assert "cli.tools.about()" in done.out
    assert done.out.index("cli.tools.about") < done.out.index("cli.tools.add")
    assert "no tools" in done.out


async def test_json_holds_the_schemas(folder, command):
    """`--json` has the keys of SR-98, no injected fields, and the artifacts that a tool declares."""
    done = await command("catalog", "cli_app:app", "--json")
    about, add = done.json
    assert list(add) == ["id", "service", "toolset", "title", "description", "tags", "payload", "result"]
    assert (add["id"], add["service"], add["toolset"]) == ("cli.tools.add", "cli", "tools")
    assert add["payload"]["schema"]["properties"]["a"]["description"] == "The first."
    assert about["artifacts"]["chart"]["schema"]["type"] == "array"
    assert "token" not in done.out


async def test_files_are_the_same_every_time(folder, command):
    """`--out` writes one `tool_schemas.json` for all and one for each agent, with the same bytes each time (SR-97)."""
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


async def test_a_target_that_is_no_app_is_one_line(folder, command):
    """A target that is no App exits with 2 and one line."""
    (folder / "cli_app.py").write_text("app = 1")
    done = await command("catalog", "cli_app:app")
    assert done.code == 2
    assert done.err.startswith("sojourn: ")
    assert done.err.count("\n") == 1

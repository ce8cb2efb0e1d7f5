"""`sojourn catalog`: as a tree, as JSON and as files (SR-95 to SR-99)."""

import json
from pathlib import Path

import pytest

from sojourn.cli.commands.catalog import _fields
from sojourn.contracts.tool_spec import ToolSpec, TypeSpec

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


def test_the_fields_of_alternatives_at_the_root_are_shown() -> None:
    """A server's schema may declare its fields in a oneOf alone."""
    schema = {"oneOf": [{"properties": {"top": {}}, "required": ["top"]}, {"properties": {"id": {}}}]}
    types = [TypeSpec(name=name, json_schema=schema) for name in ("Args", "R")]
    spec = ToolSpec(id="a.b.c", title="", description="", payload=types[0], result=types[1])
    assert _fields(spec) == "top?, id?"


async def test_json_holds_the_schemas(folder, command):
    """`--json` has the keys of SR-98, no injected fields, and the artifacts that a tool declares."""
    done = await command("catalog", "cli_app:app", "--json")
    about, add = done.json
    keys = ["id", "service", "toolset", "title", "description", "tags", "payload", "result"]
    assert list(add) == [*keys, "local", "annotations"]
    assert (add["annotations"], list(about)) == ({"read_only": True}, [*keys, "artifacts"])
    assert (add["id"], add["service"], add["toolset"]) == ("cli.tools.add", "cli", "tools")
    assert add["payload"]["schema"]["properties"]["a"]["description"] == "The first."
    assert about["artifacts"]["chart"]["schema"]["type"] == "array"
    assert "token" not in done.out


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ("local=True", "", {"local": (True, None)}),
        ("read_only=True, local=True", "destructive=True", {"approval": (None, {"cli.agent": "ask"})}),
        ("read_only=True,", "read_only=True, confirmation='Add?',", {"confirmation": (None, "Add?")}),
        (
            "read_only=True,",
            "read_only=True, retry=Retry(max_attempts=7),",
            {"retry": (None, {"max_attempts": 7})},
        ),
        ("read_only=True,", "read_only=True, timeout=timedelta(seconds=7),", {"timeout": (None, "PT7S")}),
    ],
    ids=["local", "destructive", "confirmation", "retry", "timeout"],
)
async def test_a_review_sees_what_was_declared(folder, command, before, after, changed):
    """A change of annotations, approval, retry, time-out or queue changes the entry."""
    asking = ", policy=RunPolicy(interrupts_allowed=True))"
    whole = APP.replace("uses=[tools])", f"uses=[tools]{asking}").replace(
        "import Agent", "import Agent, Retry, RunPolicy"
    )
    found = []
    for number, text in enumerate((whole, whole.replace(before, after))):
        (folder / f"review{number}.py").write_text("from datetime import timedelta\n" + text)
        done = await command("catalog", f"review{number}:app", "--json")
        assert done.code == 0, done.err
        found.append(done.json[1])
    for name, values in changed.items():
        assert tuple(entry.get(name) for entry in found) == values


async def test_the_tree_marks_tools_that_ask_a_person(folder, command):
    """The tree says which calls a person must approve, and which are denied."""
    denied = ", policy=RunPolicy(approval=ApprovalPolicy(denied_tools=['cli.tools.about'])))"
    app = APP.replace("uses=[tools])", f"uses=[tools]{denied}").replace(
        "import Agent", "import Agent, ApprovalPolicy, RunPolicy"
    )
    (folder / "cli_app.py").write_text(app)
    assert "cli.tools.about()  denied" in (await command("catalog", "cli_app:app")).out
    asking = ", policy=RunPolicy(interrupts_allowed=True))"
    app = APP.replace("uses=[tools])", f"uses=[tools]{asking}").replace(
        "import Agent", "import Agent, RunPolicy"
    )
    (folder / "cli_app.py").write_text(app.replace("inject=", "destructive=True, inject="))
    assert "cli.tools.about()  destructive · asks a person" in (await command("catalog", "cli_app:app")).out


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

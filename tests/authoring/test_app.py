"""App: the agents of a deployment, checked as a whole, and their catalogue (SR-95 to SR-100)."""

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel

from sojourn import Agent, AgentTool, App, PlanResult, RunPolicy, RunPolicyOverride, Toolset
from sojourn.contracts import ToolId
from sojourn.errors import DefinitionError


async def plan(turn: Any) -> PlanResult:
    return PlanResult.final("done")


class Question(BaseModel):
    topic: str


devices = Toolset("ops.devices", description="Field devices")


@devices.tool(tags=["read"])
def list_devices(site_id: str, limit: int = 50) -> list[str]:
    """List devices."""
    return []


@devices.tool
def reboot(device: str) -> None: ...


researcher = Agent("ops.researcher", planner=plan, description="Researches")
research = researcher.export("ops.research", tools=[AgentTool("ask", args=Question)])
assistant = Agent("ops.assistant", planner=plan, uses=[devices, research])


@pytest.fixture
def app() -> App:
    return App(agents=[assistant, researcher])


def test_an_app_lists_what_it_serves(app: App) -> None:
    """Agents, toolsets, specs and schemas are found by id at run time (SR-84, SR-100)."""
    assert app.list_agents() == ["ops.assistant", "ops.researcher"]
    assert app.list_toolsets() == ["ops.devices", "ops.research"]
    assert app.tool_spec("ops.devices.list_devices") is list_devices.spec
    assert app.tool_spec(list_devices.id) is list_devices.spec
    assert app.tool_schema("ops.devices.list_devices") == {
        "payload": list_devices.spec.payload.json_schema,
        "result": list_devices.spec.result.json_schema,
    }
    specs = app.tool_specs_for_agent("ops.assistant")
    assert [spec.id for spec in specs] == [
        "ops.devices.list_devices",
        "ops.devices.reboot",
        "ops.research.ask",
    ]
    assert specs[0] is list_devices.spec
    assert app.tool_specs_for_agent("ops.researcher") == []
    assert app.agent("ops.researcher") is researcher
    assert list(app.tools_of("ops.assistant")) == [str(spec.id) for spec in specs]


@pytest.mark.parametrize("id", ["", "ops", "ops.devices", "ops.devices.none", "ops.assistant"])
def test_an_unknown_id_gives_none(app: App, id: str) -> None:
    """Looking up an unknown id is no error (SR-100)."""
    assert app.tool_spec(id) is None
    assert app.tool_schema(id) is None
    if id != "ops.assistant":
        assert app.agent(id) is None
        assert app.tool_specs_for_agent(id) is None
        assert app.tools_of(id) == {}


def test_the_catalogue_has_one_entry_a_tool(app: App) -> None:
    """Each entry has the keys of SR-98, as JSON, with schemas that are JSON Schema (SR-99), and what else was declared.

    An entry has the description of its toolset too, for interfaces that show categories (SR-95).
    """
    catalog = app.catalog()
    assert json.loads(json.dumps(catalog)) == catalog
    assert [entry["id"] for entry in catalog] == [
        "ops.devices.list_devices",
        "ops.devices.reboot",
        "ops.research.ask",
    ]
    assert [entry.pop("toolset_description", None) for entry in catalog] == [
        "Field devices",
        "Field devices",
        "Researches",
    ]
    declared = [list(entry)[8:] for entry in catalog]
    assert declared == [[], [], ["kind", "agent_id"]]
    for entry in catalog:
        assert list(entry)[:8] == [
            "id",
            "service",
            "toolset",
            "title",
            "description",
            "tags",
            "payload",
            "result",
        ]
        assert type(entry["id"]) is str
        assert ToolId(entry["id"]).service == entry["service"]
        assert ToolId(entry["id"]).toolset == entry["toolset"]
        for side in ("payload", "result"):
            assert list(entry[side]) == ["schema"]
            Draft202012Validator.check_schema(entry[side]["schema"])
    assert catalog[0] == {
        "id": "ops.devices.list_devices",
        "service": "ops",
        "toolset": "devices",
        "title": "List devices",
        "description": "List devices.",
        "tags": ["read"],
        "payload": {"schema": list_devices.spec.payload.json_schema},
        "result": {"schema": list_devices.spec.result.json_schema},
    }


def test_planners_and_catalogue_read_the_same_specs(app: App) -> None:
    """The catalogue, for user interfaces and other orchestrators, has the schemas that planners get (SR-95)."""
    offered = {str(spec.id): spec.payload.json_schema for spec in app.tool_specs_for_agent("ops.assistant")}
    assert {entry["id"]: entry["payload"]["schema"] for entry in app.catalog()} == offered


def test_a_toolset_may_be_shared() -> None:
    """Two agents may use the same toolset: its specs are not copied, and are listed once (SR-5)."""
    other = Agent("ops.other", planner=plan, uses=[devices])
    app = App(agents=[assistant, researcher, other])
    assert app.list_toolsets() == ["ops.devices", "ops.research"]
    assert len(app.catalog()) == 3
    assert app.tool_specs_for_agent("ops.other")[0] is list_devices.spec


def test_an_agents_id_is_unique() -> None:
    """Two agents with one id are refused, even if they are the same object."""
    for other in (assistant, Agent("ops.assistant", planner=plan)):
        with pytest.raises(
            DefinitionError, match=r"^agent ops\.assistant is in App.* twice; give one of them another id"
        ):
            App(agents=[assistant, researcher, other])


def test_a_toolsets_id_is_unique() -> None:
    """Two toolsets with one id are refused, whichever agents use them."""
    other = Agent("ops.other", planner=plan, uses=[Toolset("ops.devices")])
    with pytest.raises(
        DefinitionError, match=r"^two toolsets have the id ops\.devices; give one of them another id"
    ):
        App(agents=[assistant, researcher, other])


def test_an_exported_agent_is_served_too() -> None:
    """A toolset exported by an agent that is not in the app is refused; the error says to add the agent."""
    with pytest.raises(
        DefinitionError, match=r"^toolset ops\.research is exported by agent ops\.researcher.* add it"
    ):
        App(agents=[assistant])
    namesake = Agent("ops.researcher", planner=plan)
    with pytest.raises(DefinitionError, match="add it"):
        App(agents=[assistant, namesake])


def test_a_child_runs_limits_are_never_loosened() -> None:
    """With `allow_loosening` a start may loosen a run's limits, but a parent run's override for a child run only tightens them."""
    agent = Agent("ops.careful", planner=plan, policy=RunPolicy(max_tool_calls=2, max_tokens=100))
    share = RunPolicyOverride(max_tool_calls=9, max_tokens=50)
    for loosening, is_child, left in (
        (False, False, (2, 50)),
        (False, True, (2, 50)),
        (True, False, (9, 50)),
        (True, True, (2, 50)),
    ):
        made = App(agents=[agent], allow_loosening=loosening).policy_of(agent, share, is_child=is_child)
        assert (made.max_tool_calls, made.max_tokens) == left

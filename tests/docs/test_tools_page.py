"""docs/tools.md: its module works as written, and its claims are tested."""

import json
import re
from pathlib import Path

import pytest

from sojourn import Agent, App, PlanResult, Principal, ToolCallMeta, ToolRequest, Toolset
from sojourn.cli.commands.catalog import catalog
from sojourn.contracts.tool_error import MAX_CAUSES, MAX_MESSAGE
from sojourn.errors import DefinitionError
from sojourn.testing import ScriptedPlanner
from sojourn.values import wire
from tests.docs.text_model import TextModel

PAGE = Path(__file__).parents[2] / "docs" / "tools.md"


by_both = pytest.mark.parametrize("planned_by", ["code", "model"], indirect=True)
"""For tests of arguments: the code of the test plans the calls, and so does a model that writes them as JSON text."""


@pytest.fixture
def planned_by(request):
    """Who plans the calls: the code of a test, or a model that writes JSON text."""
    return TextModel if getattr(request, "param", "code") == "model" else lambda planner: planner


@pytest.fixture
def plant(module_of, planned_by):
    """The module of the page."""
    plant = module_of("tools.md", "plant")
    plant.operator.planner = planned_by(plant.operator.planner)
    return plant


@pytest.fixture
def answers_to(serve, plant, planned_by):
    """Execute calls of the page's tools in one run of the page's app; returns results, run and planner."""

    async def play(*calls, **start):
        planner = ScriptedPlanner([PlanResult.calls(*calls), PlanResult.final("done")])
        plant.operator.planner = planned_by(planner)
        client = await serve(plant.app)
        run = await client.start("plant.operator", "go", **start)
        await run.result()
        return planner.turns[1].tool_results, run, planner

    return play


async def test_the_app_of_the_page_answers(serve, plant):
    """The page's planner lists devices and answers with their bounds, or with the error."""
    client = await serve(plant.app)
    assert (await client.execute("plant.operator", "s-1")).text == "2 of 120 shown"
    assert (await client.execute("plant.operator", "site one")).text == "no such site"


@by_both
@pytest.mark.usefixtures("processes")
async def test_every_kind_of_tool_on_the_page_answers(answers_to, plant):
    """Functions, bound methods, executors and a program each return the value of the page."""
    calls = [
        plant.list_devices.call(site_id="s-1"),
        plant.restart.call(plant.Restart(device_id="d-1", why="stuck")),
        plant.latest.call(plant.Ask(device_id="d-1")),
        plant.in_words.call(plant.Ask(device_id="d-1")),
        plant.summarize.call(plant.Summarize(report_ids=["a", "b"])),
        plant.archive.call(plant.Summarize(report_ids=["a"])),
        plant.sensor.call(plant.Ask(device_id="d-1")),
        plant.export.call(device_id="d-1"),
        plant.count_words.call(text="one two three"),
    ]
    results, run, _ = await answers_to(*calls, session_id="s")
    listed, restarted, read, worded, summed, archived, sensed, exported, counted = results
    value = plant.list_devices.result_of(listed)
    assert (len(value.devices), value.total) == (50, 120)
    assert (listed.bounds.returned, listed.bounds.truncated) == (50, True)
    key = ToolCallMeta.key_of(run.id, calls[1].model_copy(update={"tool_call_id": restarted.tool_call_id}))
    assert plant.restart.result_of(restarted) == f"d-1 restarted as order {key[:8]}"
    assert read.result == {"value": 21.5, "unit": "celsius"}
    assert worded.result == "21.5 fahrenheit"
    assert summed.result == {"summary": "2 reports, nothing unusual"}
    assert archived.error.message == "plant.reports.archive is read-only for session s"
    assert sensed.result == {"value": 21.5, "unit": "celsius"}
    assert (exported.result, counted.result) == (3, "3")


def test_a_tool_is_still_the_function(plant):
    """A test may call the decorated function, with a `ToolCallMeta` of its own."""
    answer = plant.restart(plant.Restart(device_id="d-1", why="stuck"), ToolCallMeta(run_id="r"))
    assert answer.startswith("d-1 restarted")


@by_both
async def test_injected_values_are_hidden_and_masked(answers_to, plant, traces):
    """Injected parameters are in no schema, a planner's values for them are dropped, and the history does not hold them."""
    calls = [
        plant.history.call(device_id="d-1", days=2),
        ToolRequest(name=plant.firmware.id, payload={"device_id": "d-1", "tenant": "other", "token": "mine"}),
    ]
    (read, asked), run, planner = await answers_to(*calls, session_id="s-77")
    assert read.result == [21.0, 22.0]
    assert asked.result == "d-1 of  runs 4.2, asked with [token]"
    shown = {spec.id: spec.payload.json_schema for spec in planner.turns[0].tools}
    assert list(shown[plant.firmware.id]["properties"]) == ["device_id"]
    assert "session_id" not in json.dumps(shown[plant.history.id])
    assert "tok-5f2c91d7" not in "".join(str(event) for event in await traces(run).history())


def test_the_tenant_is_that_of_the_principal(plant):
    """A label names no tenant: the injected one is that of the principal, and empty for a run that acts for nobody."""
    labels = {"tenant": "acme"}
    ben = Principal(subject="ben", tenant="beta")
    fill = plant.firmware.fillers["tenant"]
    assert fill(ToolCallMeta(run_id="r", labels=labels, principal=ben)) == "beta"
    assert fill(ToolCallMeta(run_id="r", labels=labels)) == ""


async def test_a_tenant_is_masked(answers_to, plant):
    """The tenant that is injected is masked in the result."""
    calls = [ToolRequest(name=plant.firmware.id, payload={"device_id": "d-1", "tenant": "other"})]
    (asked,), _, _ = await answers_to(
        *calls, labels={"tenant": "other"}, principal=Principal(subject="ana", tenant="acme")
    )
    assert asked.result == "d-1 of [tenant] runs 4.2, asked with [token]"


async def test_an_artifact_is_read_by_its_reference(answers_to, plant):
    """The planner gets a reference, the event has the data, and `run.artifact` returns the data later."""
    (result,), run, _ = await answers_to(plant.temperature.call(device_id="d-1"))
    assert result.result == "24 points, 20 to 24 °C"
    (artifact,) = result.artifacts
    assert artifact.data is None
    (end,) = [event async for event in run.events() if event.type == "tool_end"]
    assert len(plant.temperature.artifact(end.result, plant.TIME_SERIES).points) == 24
    assert (await run.artifact(artifact.ref)).data["points"][0] == ["00:00", 20.0]


def test_the_catalogue_is_shown_and_written(plant, capsys, tmp_path):
    """`catalog` lists the tools of the page's module, and a second `--out` writes the same bytes."""
    catalog("plant:app")
    assert "plant.devices.list_devices(site_id, status?, limit?)" in capsys.readouterr().out
    written = []
    for folder in ("one", "two"):
        catalog("plant:app", out=tmp_path / folder)
        written.append((tmp_path / folder / "plant.operator" / "tool_schemas.json").read_bytes())
    assert written[0] == written[1]
    assert plant.app.tool_spec("plant.devices.nothing") is None


@pytest.mark.parametrize(
    ("bind", "message"),
    [
        (lambda plant, tools: tools.bind(plant.ReadingsService.latest, args=plant.Summary), "summary"),
        (lambda plant, tools: tools.bind(plant.ReadingsService.latest, result=plant.Summary), "summary"),
        (
            lambda plant, tools: tools.bind("latest", args=plant.Ask, result=plant.Shown),
            "'plant', which is not",
        ),
    ],
    ids=["to method", "to result", "own service"],
)
def test_a_bad_binding_is_refused(plant, bind, message):
    """Fields that do not fit, and a missing service of the toolset's own name, raise DefinitionError."""
    tools = Toolset("plant.more")
    bind(plant, tools)
    with pytest.raises(DefinitionError, match=message):
        App(
            agents=[Agent("plant.other", planner=plant.plan, uses=[tools])],
            services=[plant.ReadingsService()],
        )


def test_the_sizes_of_the_reference_are_those_of_the_code():
    """The figures of its table are constants of `sizes` and, for errors, of `tool_error`."""
    section = (PAGE.parent / "reference" / "tools.md").read_text().split("## Sizes")[1]
    figures = [int(each.replace(",", "")) for each in re.findall(r"\| ([\d,]+) \|", section)]
    assert figures == [
        wire.MAX_PAYLOAD_BYTES,
        wire.MAX_STEP_BYTES,
        wire.MAX_RESULT_BYTES,
        wire.MAX_ARTIFACT_BYTES,
        wire.MAX_LOCAL_BYTES,
        wire.MAX_STORED_BYTES,
        wire.MAX_RESULT_BYTES,
    ]
    assert f"| {MAX_MESSAGE:,} characters, {MAX_CAUSES} links |" in section

"""docs/observability.md: its module works as written, and its tables agree with the code."""

import re
from pathlib import Path

from opentelemetry import environment_variables as of_api
from opentelemetry.sdk import environment_variables as of_sdk

from sojourn import Agent, App, PlanResult, data_converter
from sojourn.telemetry.recorder import METRICS
from sojourn.testing import ScriptedPlanner

PAGE = (Path(__file__).parents[2] / "docs" / "observability.md").read_text()


async def test_the_client_of_the_page_connects(temporal_address, module_of):
    """The page's own Temporal client connects; without telemetry settings it has no interceptors."""
    client = await module_of("observability.md", "shop").connect(temporal_address)
    assert client.temporal.config()["interceptors"] == []
    assert client.temporal.data_converter == data_converter


async def test_the_tool_of_the_page_runs_untraced_too(serve, module_of):
    """A tool that makes spans also runs with tracing off."""
    shop = module_of("observability.md", "shop")
    planner = ScriptedPlanner([PlanResult.calls(shop.count.call(article="lamp")), PlanResult.final("done")])
    client = await serve(App(agents=[Agent("shop.test", planner=planner, uses=[shop.stock])]))
    await client.execute("shop.test", "go")
    assert planner.turns[1].tool_results[0].result == 4


def test_the_metrics_of_the_page_are_those_of_the_code(rows):
    """Name, unit and description of each metric are those of the code, in its order."""
    shown = [
        (name.strip("`"), unit.strip("`"), text)
        for name, unit, text, _ in rows("observability.md", "## Metrics")
    ]
    assert shown == [(name, unit, text) for name, (unit, text) in METRICS.items()]


def test_the_variables_of_the_page_are_those_of_the_standard():
    """Each `OTEL_` variable of the page is one of OpenTelemetry's."""
    named = {name for name in re.findall(r"`(OTEL_[A-Z_]+)`", PAGE) if not name.endswith("_")}
    assert named
    assert {name for name in named if not (hasattr(of_api, name) or hasattr(of_sdk, name))} == set()

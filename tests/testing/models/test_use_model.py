"""`use_model`: the model of an agent's planner, replaced for a block or a test."""

import os
import subprocess
import sys

import pytest
from pydantic_ai import models
from pydantic_ai.models.test import TestModel

from sojourn import Agent, App, PlanResult, RunFailed
from sojourn.contracts.message import Message
from sojourn.contracts.plan import PlanInput, RunContext
from sojourn.models import ModelPlanner
from sojourn.repair import RepairingPlanner
from sojourn.testing.models import use_model

TURN = PlanInput(run=RunContext(run_id="r-1", agent_id="a.b"), messages=[Message.user("go")], tools=[])


def says(text: str) -> TestModel:
    """A model that answers with this text."""
    return TestModel(custom_output_text=text)


async def answer_of(planner) -> str:
    """The text of a planner's answer."""
    plan = await planner.plan_start(TURN)
    assert plan.final_response
    return plan.final_response.text


async def test_a_block_in_a_block():
    """The inner block's model plans inside that block; after both blocks the planner's own model plans again."""
    planner = ModelPlanner(says("own"), fallbacks=[says("other")])
    assert await answer_of(planner) == "own"
    with use_model(planner, says("first")) as given:
        assert given.custom_output_text == "first"
        assert await answer_of(planner) == "first"
        with use_model(planner, says("second")):
            assert await answer_of(planner) == "second"
        assert await answer_of(planner) == "first"
    assert await answer_of(planner) == "own"


async def test_all_of_an_app():
    """Each model planner of an app uses the model, also one that is shared by agents or inside another planner."""

    async def own(turn) -> PlanResult:
        return PlanResult.final("own")

    shared, inner = ModelPlanner("openai:gpt-5-mini"), ModelPlanner("anthropic:claude-sonnet-4-6")
    agents = [
        Agent("a.one", planner=shared),
        Agent("a.two", planner=shared),
        Agent("a.three", planner=RepairingPlanner(inner)),
        Agent("a.four", planner=own),
    ]
    with use_model(App(agents=agents), says("it")):
        assert [await answer_of(agent.planner) for agent in agents] == ["it", "it", "it", "own"]
        with use_model(agents[2], says("this")):
            assert [await answer_of(planner) for planner in (shared, inner)] == ["it", "this"]


@pytest.mark.parametrize("kind", ["agent", "app"])
def test_without_a_model_planner(kind):
    """`use_model` raises `LookupError` for an agent or an app without a model planner."""

    async def own(turn) -> PlanResult:
        return PlanResult.final("own")

    agent = Agent("a.one", planner=own)
    with (
        pytest.raises(LookupError, match=r"(agent a.one|this App) has no ModelPlanner"),
        use_model(agent if kind == "agent" else App(agents=[agent]), says("it")),
    ):
        pass


async def test_requests_that_are_switched_off(standin, serve, monkeypatch):
    """Without `ALLOW_MODEL_REQUESTS` a run that would ask a provider fails at once, without a request; a test model still plans."""
    planner = ModelPlanner(standin.model("openai-chat"))
    monkeypatch.setattr(models, "ALLOW_MODEL_REQUESTS", False)
    client = await serve(planner=planner)
    with pytest.raises(RunFailed, match=r"sojourn\.testing\.models") as failed:
        await client.execute("test.agent", "go")
    assert failed.value.code == "ModelMisconfigured"
    assert standin.requests == []
    with use_model(planner, says("it")):
        assert (await client.execute("test.agent", "go")).text == "it"


@pytest.mark.usefixtures("processes")
def test_the_fixture(tmp_path):
    """The fixture `use_model` replaces the model until the test ends."""
    (tmp_path / "test_it.py").write_text(
        "from pydantic_ai.models.test import TestModel\n"
        "from sojourn.models import ModelPlanner\n"
        "planner = ModelPlanner('openai:gpt-5-mini')\n"
        "def test_other(use_model):\n"
        "    model = TestModel()\n"
        "    assert use_model(planner, model) is model\n"
        "    assert planner._provider == 'test'\n"
        "def test_own():\n"
        "    assert planner._provider == 'openai'\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "sojourn.testing.pytest_plugin", "-W", "error"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.usefixtures("processes")
def test_testing_without_the_model_layer():
    """Without pydantic-ai and uvicorn, `sojourn.testing`, its pytest plugin and the provider's rules can be imported."""
    script = (
        "import sys; sys.modules['pydantic_ai'] = sys.modules['uvicorn'] = None\n"
        "import sojourn.testing.pytest_plugin\n"
        "import sojourn.testing.providers\n"
        "from sojourn.testing import ScriptedPlanner\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")

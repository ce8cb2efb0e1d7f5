"""Runs over several versions of their workers: pinned, moving, ramped and rolled back."""

import asyncio
import uuid
from contextlib import AsyncExitStack
from datetime import timedelta

import pytest

from sojourn import (
    Agent,
    AgentTool,
    App,
    AwaitClarification,
    Client,
    PlanResult,
    RunPolicy,
)
from sojourn.client import deployments
from sojourn.connection import settings
from sojourn.errors import DefinitionError, InvalidInput
from sojourn.replay import Replay, source_of_run
from sojourn.worker import Worker


def versioned_app(version: str, versioning: str) -> App:
    """An app whose answers name the version that planned them, and that of its child run."""

    async def child_plan(_turn):
        return PlanResult.final(version)

    child = Agent("shop.child", planner=child_plan)
    export = child.export("shop.children", tools=[AgentTool("ask", args=dict[str, str], result=str)])

    async def plan(turn):
        if turn.tool_results:
            return PlanResult.final(f"{version}/{turn.tool_results[-1].result}")
        if len(turn.messages) == 1:
            return PlanResult.ask(AwaitClarification(question="Go on?"))
        return PlanResult.calls(export["ask"].call(text="hi"))

    async def listener(_turn):
        return PlanResult.final(version)

    asking = RunPolicy(interrupts_allowed=True)
    agents = [
        child,
        Agent("shop.parent", planner=plan, uses=[export], policy=asking),
        Agent("shop.listener", planner=listener),
    ]
    return App(agents=agents, versioning=versioning)


@pytest.fixture
async def deploy(temporal_address, monkeypatch):
    """Serve and promote versions of an app in a deployment of the test's own."""
    name = f"shop-{uuid.uuid4().hex[:8]}"
    async with AsyncExitStack() as stack:
        client = await Client.connect(temporal_address, task_queue=name)

        async def serve(version: str, versioning: str, *, promotes: bool = True) -> Client:
            monkeypatch.setenv("SOJOURN_DEPLOYMENT", name)
            monkeypatch.setenv("SOJOURN_BUILD_ID", version)
            app = versioned_app(version, versioning)
            await stack.enter_async_context(Worker(app, client, drain=timedelta(0)))
            if promotes:
                await deployments.promote(client.temporal, name, version)
            return client

        yield name, serve


async def answered(run) -> str:
    """Answer a run's question, and return its answer."""
    (question,) = await run.until_waiting()
    await run.answer(question.id, "yes")
    return (await run.result()).text


@pytest.mark.parametrize(("versioning", "ends_on"), [("pinned", "1/1"), ("auto_upgrade", "3/3")])
async def test_a_run_waits_over_three_deployments(deploy, versioning, ends_on):
    """A pinned run and its child run end on their version, a moving one on the current version; new runs begin on that."""
    name, serve = deploy
    client = await serve("1", versioning)
    run = await client.start("shop.parent", "Begin.")
    await run.until_waiting()
    await serve("2", versioning)
    await serve("3", versioning)
    states = {
        each.build_id: each.state
        for each in (await deployments.read_deployment(client.temporal, name)).versions
    }
    assert (states["3"], states["1"]) == ("current", "draining")
    assert await answered(await client.start("shop.parent", "Begin.")) == "3/3"
    assert await answered(run) == ends_on


async def test_a_pinned_conversation_moves_as_it_continues(deploy, monkeypatch):
    """A new execution of a pinned run begins on the current version; until then each turn is on its own."""
    monkeypatch.setattr("workflows.history_budget.CONTINUE_EVENTS", 40)
    _name, serve = deploy
    client = await serve("1", "pinned")
    session = client.session("shop.listener", uuid.uuid4().hex)

    async def planned_by(text: str) -> str:
        return (await (await session.send(text)).result()).text

    assert await planned_by("one") == "1"
    await serve("2", "pinned")
    versions = [await planned_by(f"message {number}") for number in range(12)]
    assert (versions[0], versions[-1], sorted(versions)) == ("1", "2", versions)
    async with Replay(versioned_app("2", "pinned"), client.temporal.data_converter, plans=False) as replay:
        (report,) = [each async for each in replay.reports([source_of_run(client.temporal, session.run.id)])]
    assert report.findings == [], "its executions replay without a deployment"
    await session.close()


async def test_a_version_ramps_and_is_rolled_back(deploy):
    """With a ramp of 100 % new runs begin on it; a rollback ends the ramp, the next one leads back to the version before."""
    name, serve = deploy
    client = await serve("1", "pinned")
    await serve("2", "pinned")
    await serve("3", "pinned", promotes=False)

    async def begin_on() -> str:
        return (await client.execute("shop.listener", "Begin.")).text

    assert await begin_on() == "2"
    async with asyncio.timeout(30):
        while True:  # the ramp reaches the task queue in a moment
            try:
                await deployments.ramp(client.temporal, name, "3", 100)
                break
            except InvalidInput:
                await asyncio.sleep(0.2)
        while await begin_on() != "3":
            pass
    assert await deployments.rollback(client.temporal, name) == "2"
    async with asyncio.timeout(30):
        while await begin_on() != "2":
            pass
    assert await deployments.rollback(client.temporal, name) == "1"
    states = {
        each.build_id: each.state
        for each in (await deployments.read_deployment(client.temporal, name)).versions
    }
    assert states["1"] == "current"
    assert "ramping" not in states.values()
    assert name in await deployments.find_deployments(client.temporal)


async def test_what_does_not_exist_is_refused(temporal_address):
    """An unknown deployment is named, with how workers join one."""
    client = await Client.connect(temporal_address)
    with pytest.raises(
        InvalidInput, match="there is no deployment nowhere; workers join it with SOJOURN_DEPLOYMENT=nowhere"
    ):
        await deployments.read_deployment(client.temporal, "nowhere")


def test_settings_are_checked(monkeypatch):
    """A name that Temporal would refuse is refused at the start of the worker."""
    monkeypatch.setenv("SOJOURN_DEPLOYMENT", "a.b")
    with pytest.raises(DefinitionError, match="SOJOURN_DEPLOYMENT"):
        settings.deployment()
    monkeypatch.setenv("SOJOURN_BUILD_ID", "a b")
    with pytest.raises(DefinitionError, match="SOJOURN_BUILD_ID"):
        settings.build_id()
    with pytest.raises(DefinitionError, match="versioning='moving'"):
        versioned_app("1", "moving")


def test_the_digest_follows_the_code(tmp_path, monkeypatch):
    """The digest of an app is the same for the same code in any folder, and another one for other code."""
    import importlib
    import sys

    source = (
        "from sojourn import Agent, App, PlanResult\n"
        "async def plan(turn):\n    return PlanResult.final('TEXT')\n"
        "app = App(agents=[Agent('shop.a', planner=plan)])\n"
    )

    def digest(folder: str, text: str) -> str:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "digested_app.py").write_text(source.replace("TEXT", text))
        with monkeypatch.context() as patch:
            patch.syspath_prepend(tmp_path / folder)
            sys.modules.pop("digested_app", None)
            return importlib.import_module("digested_app").app.digest

    one, same, other = digest("a", "x"), digest("b", "x"), digest("c", "y")
    assert one == same
    assert one != other

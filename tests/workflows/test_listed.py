"""Search attributes that a namespace lacks, or loses: runs go on without them, and the worker logs it."""

import logging
import uuid

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.operatorservice.v1 import RemoveSearchAttributesRequest
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.service import RPCError
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from sojourn import (
    Agent,
    AgentTool,
    App,
    AwaitClarification,
    Client,
    PlanResult,
    RunPolicy,
    Worker,
    data_converter,
    search_attributes,
)
from sojourn.serving import registration
from sojourn.testing.scripted import ScriptedPlanner
from sojourn.worker import shell
from tests.workflows.test_endless import flood, short

__all__ = ["short"]


def ask(name: str) -> PlanResult:
    return PlanResult.ask(AwaitClarification(id=name, question="which?"))


def app_that_asks_twice() -> App:
    child = Agent("test.child", planner=ScriptedPlanner([PlanResult.final("below")]))
    below = child.export("test.below", tools=[AgentTool("ask", args=dict)])
    script = [ask("q"), PlanResult.calls(below.tools["ask"].call()), ask("q"), PlanResult.final("done")]
    policy = RunPolicy(interrupts_allowed=True)
    return App(
        agents=[Agent("test.agent", planner=ScriptedPlanner(script), uses=[below], policy=policy), child]
    )


@pytest.fixture
async def bare(temporal_address, until):
    """A client of a namespace that has no search attributes yet."""
    name = f"bare-{uuid.uuid4().hex[:8]}"
    client = await Client.connect(temporal_address, namespace=name, task_queue="q")
    kept = Duration(seconds=86_400)
    request = RegisterNamespaceRequest(namespace=name, workflow_execution_retention_period=kept)
    await client.temporal.workflow_service.register_namespace(request)

    async def is_known() -> bool:
        try:
            return not await search_attributes.register(client.temporal)
        except RPCError:
            return False

    await until(is_known)
    return client


async def test_an_attribute_that_is_missing_harms_no_run(
    bare, until, traces, monkeypatch, status_when, caplog
):
    """When one attribute is removed, a run that waits and a new one complete and replay, and no workflow task fails."""
    monkeypatch.setattr(registration, "LOOKED_AT_EVERY", 0.05)
    caplog.set_level(logging.INFO)
    app = app_that_asks_twice()
    async with Worker(app, bare):
        for name in search_attributes.NAMES:
            run = await started(bare, until)
            await status_when(run, lambda status: status.awaits)
            await bare.temporal.operator_service.remove_search_attributes(
                RemoveSearchAttributesRequest(namespace=bare.temporal.namespace, search_attributes=[name])
            )
            await until(lambda name=name: f"'{name}'" in caplog.text)  # the worker logs the name
            late = await started(bare, until)
            for one in (run, late):
                await status_when(one, lambda status: status.awaits)
                await one.answer("q", "a")
                await status_when(one, lambda status: status.awaits)
                await one.answer("q#2", "b")
                assert (await one.result()).text == "done"
                await traces(one).check()
                history = await one._handle.fetch_history()
                replayer = Replayer(
                    workflows=list(shell(app).workflows),
                    workflow_runner=UnsandboxedWorkflowRunner(),
                    data_converter=data_converter,
                )
                await replayer.replay_workflow(history)
            await until(lambda: registers(bare))
            await until(lambda: "search_attributes_registered" in caplog.text)
            caplog.clear()


@pytest.mark.parametrize("names", [["SojournAwaiting"], list(search_attributes.NAMES)], ids=["one", "all"])
async def test_a_long_run_goes_on_without_them(
    bare, short, until, traces, monkeypatch, status_when, caplog, names
):
    """A run whose attributes are removed while it waits goes on in new executions, and no workflow task fails."""
    monkeypatch.setattr(registration, "LOOKED_AT_EVERY", 0.05)
    caplog.set_level(logging.INFO)
    async with Worker(app_that_asks_twice(), bare):
        run = await started(bare, until)
        await status_when(run, lambda status: status.awaits)
        await bare.temporal.operator_service.remove_search_attributes(
            RemoveSearchAttributesRequest(namespace=bare.temporal.namespace, search_attributes=names)
        )
        await until(lambda: f"'{names[-1]}'" in caplog.text)  # the worker has noticed
        await flood(run, 60)
        await run.answer("q", "a")
        await status_when(run, lambda status: status.awaits)
        await run.answer("q#2", "b")
        assert (await run.result()).text == "done"
        await traces(run).check()
        assert [event.type async for event in run.events()].count("run_continued") >= 1


async def registers(client) -> bool:
    return not await search_attributes.register(client.temporal)


async def started(client, until):
    """Start a run once a worker serves it."""

    async def start():
        return await client.start("test.agent", "go", session_id="s", wait_for_worker=True)

    return await until(start)

"""Answers to a run whose workflow task fails: sent again until a worker completes the task."""

import asyncio
import uuid

import pytest
from temporalio import workflow
from temporalio.worker import UnsandboxedWorkflowRunner
from temporalio.worker import Worker as TemporalWorker

from sojourn import (
    Agent,
    App,
    AwaitClarification,
    AwaitClosed,
    Client,
    PlanResult,
    RunPolicy,
    Worker,
)
from sojourn.client import sending
from sojourn.errors import NoWorker
from sojourn.testing.scripted import ScriptedPlanner


@workflow.defn(name="AgentRun")
class Broken:
    """A version of the workflow that fails every workflow task."""

    @workflow.run
    async def run(self, _given: dict) -> None:
        """Fail the task, not the run."""
        raise RuntimeError("this version is broken")


app = App(
    agents=[
        Agent(
            "test.asker",
            planner=ScriptedPlanner(
                [
                    PlanResult.ask(AwaitClarification(id="which", question="?")),
                    lambda turn: PlanResult.final(turn.messages[-1].text),
                ]
            ),
            policy=RunPolicy(interrupts_allowed=True),
        )
    ]
)


@pytest.fixture
async def asking(temporal_address, status_when):
    """A run that waits for an answer, and whose worker has stopped."""
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    async with Worker(app, client):
        run = await client.start("test.asker", "go")
        await status_when(run, lambda status: status.awaits)
    return run


@pytest.fixture
def broken(asking, until):
    """A worker of the broken version on the run's queue."""
    client = asking.client
    return TemporalWorker(
        client.temporal,
        task_queue=client.task_queue,
        workflows=[Broken],
        workflow_runner=UnsandboxedWorkflowRunner(),
    )


@pytest.fixture
def has_failed_often(asking, until):
    """Wait until the run's workflow task has failed so often that the server refuses answers at once."""

    async def wait() -> None:
        async def attempts() -> bool:
            described = await asking.client.temporal.get_workflow_handle(asking.id).describe()
            return described.raw_description.pending_workflow_task.attempt >= 3

        await until(attempts)

    return wait


async def test_an_answer_waits_for_a_version_that_works(asking, broken, has_failed_often):
    """An answer sent while the task fails is accepted once a working version runs."""
    async with broken:
        # A signal causes a workflow task.
        await asking.client.temporal.get_workflow_handle(asking.id).signal("anything")
        await has_failed_often()
        answer = asyncio.create_task(asking.answer("which", "this one"))
        await asyncio.sleep(1.0)
        assert not answer.done()
    async with Worker(app, asking.client):
        await answer
        assert (await asking.result()).text == "this one"


async def test_a_version_that_never_works_is_no_worker(asking, broken, has_failed_often, monkeypatch):
    """After `ANSWER_DEADLINE` an answer raises `NoWorker`, whose text says how to find the reason."""
    monkeypatch.setattr(sending, "ANSWER_DEADLINE", 1.0)
    async with broken:
        await asking.client.temporal.get_workflow_handle(asking.id).signal("anything")
        await has_failed_often()
        with pytest.raises(NoWorker, match="sojourn list --stuck"):
            await asking.answer("which", "this one")


async def test_an_answer_under_way_when_the_run_ends_is_late(asking):
    """The server aborts an update that no worker has handled at the run's end: the run has ended, it is not unknown."""
    answer = asyncio.create_task(asking.answer("which", "one"))
    await asyncio.sleep(0.5)  # until the server has the update; none of its answers tells
    await asking.client.temporal.get_workflow_handle(asking.id).terminate()
    with pytest.raises(AwaitClosed, match="has ended"):
        await answer

"""The archive: the events of executions that retention has deleted are read as if the executions were still there."""

import asyncio
import importlib
import shutil

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import (
    DeleteWorkflowExecutionRequest,
    ResetWorkflowExecutionRequest,
)

from sojourn import Agent, App, Client, RunPolicy, Toolset
from sojourn.core.run.continuation import KEY
from sojourn.errors import RunCanceled, RunUnreadable
from sojourn.events import one_run
from sojourn.storage import FolderStorage
from tests.chain import history_of
from tests.workflows.test_endless import counting, shorter
from tests.workflows.test_stored_transcripts import answer_of, arguments

__all__ = ["shorter"]

POLICY = RunPolicy(max_tool_calls=100_000, max_tool_rounds=100_000, interrupts_allowed=True)
tools = Toolset("long.tools")
workflow_archive = importlib.import_module("workflows.continue_as_new")


@tools.tool
async def note(n: int) -> str:
    """Note a number."""
    return f"{n}" + "x" * 50


def app_of(count: int, storage, *, archive: bool = True, ask_at: int = -1) -> App:
    agent = Agent("test.agent", planner=counting(count, ask_at=ask_at), uses=[tools], policy=POLICY)
    return App(agents=[agent], storage=storage, archive=archive)


async def executions_of(client: Client, run_id: str) -> list[str]:
    """The executions that are left, oldest first."""
    present = await one_run.present_execution(client.temporal, run_id)
    return [*reversed(await one_run.executions_before(client.temporal, run_id, present, 1_000)), present]


async def delete(client: Client, run_id: str, gone: list[str]) -> None:
    """Delete executions, and wait until the server has deleted them."""
    for execution in gone:
        await client.temporal.workflow_service.delete_workflow_execution(
            DeleteWorkflowExecutionRequest(
                namespace=client.temporal.namespace,
                workflow_execution=WorkflowExecution(workflow_id=run_id, run_id=execution),
            )
        )
    async with asyncio.timeout(60):
        while set(gone) & set(await executions_of(client, run_id)):
            await asyncio.sleep(0.2)


@pytest.fixture
def storage(tmp_path):
    return FolderStorage(tmp_path / "kept")


async def events_of(run, **options) -> list:
    return [event async for event in run.events(**options)]


async def test_events_of_deleted_executions(shorter, serve, storage):
    """All of them are there, each once, in order and with the ids of before, whichever executions are left; also from the middle."""
    client = await serve(app_of(20, storage), storage=storage)
    run = await client.start("test.agent", "go")
    assert (await run.result()).text == answer_of(20)
    whole = await events_of(run)
    executions = await executions_of(client, run.id)
    assert len(executions) >= 5
    for gone in (executions[:1], executions[1:3], executions[3:-1]):
        await delete(client, run.id, gone)
        assert await events_of(run) == whole
    middle = whole[len(whole) // 2].event_id
    assert await events_of(run, after=middle) == whole[len(whole) // 2 + 1 :]
    assert len(await run.transcript()) == 42


async def test_a_client_without_the_storage_begins_with_what_is_left(shorter, serve, storage, no_storage):
    """Its first event says where the events begin."""
    client = await serve(app_of(12, storage))
    run = await client.start("test.agent", "go")
    await run.result()
    await delete(client, run.id, (await executions_of(client, run.id))[:-1])
    first = (await events_of(run))[0]
    assert (first.type, first.is_start) == ("run_continued", True)


async def test_a_run_that_waits_is_archived_before_it_goes_on(shorter, serve, storage, until):
    """Each execution archives those before it at its start: also one that then waits longer than they are kept."""
    client = await serve(app_of(12, storage, ask_at=10), storage=storage)
    run = await client.start("test.agent", "go")
    (wait,) = await run.until_waiting()
    before = await events_of(run, follow=False)
    executions = await executions_of(client, run.id)
    await delete(client, run.id, executions[:-1])
    assert await events_of(run, follow=False) == before
    await run.answer(wait, "yes")
    await run.result()
    after = await events_of(run)
    assert after[: len(before)] == before
    assert after[-1].type == "run_stream_end"


async def test_without_an_archive_nothing_is_recorded_for_one(shorter, serve, storage):
    """No activity, no field: a run's histories are those of an app without this option."""
    client = await serve(app_of(12, storage, archive=False), storage=storage)
    run = await client.start("test.agent", "go")
    await run.result()
    names = {
        event.activity_task_scheduled_event_attributes.activity_type.name
        for event in await history_of(client.temporal, run.id)
    }
    assert "StoreTranscriptActivity" in names
    assert "ArchiveEventsActivity" not in names
    assert not any("arch" in str(argument["state"].keys()) for argument in await arguments(client, run.id))


async def test_an_archive_that_was_out_of_order_is_made_up_for(
    shorter, serve, storage, tmp_path, monkeypatch
):
    """Its failures end no run, and a later execution archives what is missing."""
    monkeypatch.setattr(workflow_archive, "STORE_ATTEMPTS", 1)
    archived = importlib.import_module("activities.transcripts")
    store, failures = archived.store_part, []

    async def failing(*args, **options):
        if len(failures) < 2:
            failures.append(1)
            raise OSError("the disk is full")
        return await store(*args, **options)

    monkeypatch.setattr(archived, "store_part", failing)
    client = await serve(app_of(20, storage), storage=storage)
    run = await client.start("test.agent", "go")
    await run.result()
    whole, executions = await events_of(run), await executions_of(client, run.id)
    await delete(client, run.id, executions[:-1])
    assert await events_of(run) == whole
    assert len(failures) == 2


async def test_ids_count_resets(shorter, serve, storage):
    """A run that was reset, and then went on: the ids of its events are those of before the deletion."""
    client = await serve(app_of(12, storage, ask_at=2), storage=storage)
    run = await client.start("test.agent", "go")
    (wait,) = await run.until_waiting()
    history = await client.temporal.get_workflow_handle(run.id).fetch_history()
    done = [
        e.event_id for e in history.events if e.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
    ]
    await client.temporal.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=client.temporal.namespace,
            workflow_execution=WorkflowExecution(workflow_id=run.id),
            workflow_task_finish_event_id=done[1],
            request_id="r",
            reason="again",
        )
    )
    (wait,) = await run.until_waiting()
    await run.answer(wait, "yes")
    await run.result()
    whole, executions = await events_of(run), await executions_of(client, run.id)
    assert any("reset" in getattr(event, "text", "") for event in whole)
    await delete(client, run.id, executions[:-1])
    assert await events_of(run) == whole


async def test_an_archive_that_is_gone_is_told(shorter, serve, storage, tmp_path):
    """The error names the run and the reason; its status and result need no archive."""
    client = await serve(app_of(12, storage), storage=storage)
    run = await client.start("test.agent", "go")
    await run.result()
    await delete(client, run.id, (await executions_of(client, run.id))[:-1])
    shutil.rmtree(tmp_path / "kept")
    with pytest.raises(RunUnreadable, match=f"the archived events of run {run.id} cannot be read"):
        await events_of(run)
    assert (await run.status()).tool_calls == 12


async def test_an_archive_of_another_run_is_not_read(shorter, serve, storage):
    """A state that names another run's archive, as anybody may start one, opens nothing of it."""
    client = await serve(app_of(12, storage), storage=storage)
    run = await client.start("test.agent", "go")
    await run.result()
    state = (await arguments(client, run.id))[-1]
    assert state["state"]["archive"]
    state["state"]["archived"] = state["state"]["executions"]
    forged = await client.temporal.start_workflow(
        "AgentRun", {KEY: state}, id=f"{run.id}-forged", task_queue=client.task_queue
    )
    with pytest.raises(RunUnreadable, match=f"is of run {run.id}, not of"):
        await events_of(client.get_run(forged.id), follow=False)
    await forged.terminate()


async def test_a_canceled_run_does_not_wait_for_its_archive(shorter, serve, storage, monkeypatch, until):
    """It ends at once, and its archive is that of the execution before."""
    archived = importlib.import_module("activities.transcripts")
    begun, store = asyncio.Event(), archived.store_part

    async def slow(*args, **options):
        begun.set()
        await asyncio.sleep(3_600)
        return await store(*args, **options)

    monkeypatch.setattr(archived, "store_part", slow)
    client = await serve(app_of(1_000, storage), storage=storage)
    run = await client.start("test.agent", "go")
    await asyncio.wait_for(begun.wait(), 60)
    await run.cancel("enough")
    with pytest.raises(RunCanceled):
        await asyncio.wait_for(run.result(), 60)
    assert (await events_of(run))[-1].type == "run_stream_end"

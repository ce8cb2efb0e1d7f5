"""Events of a run whose history begins anew: a reset by an operator, and continued executions."""

import asyncio
import uuid

import pytest
from temporalio import workflow
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from sojourn import Client, Message, PlanResult, RunInput, RunOutput, ToolRequest, Toolset
from sojourn.testing.scripted import ScriptedPlanner


def calling(id: str) -> PlanResult:
    return PlanResult.calls(ToolRequest(name="test.tools.note", payload={}, tool_call_id=id))


async def reset_to_first_plan(client: Client, run_id: str) -> None:
    """Take a run back to where its first plan had come, as `temporal workflow reset` does."""
    handle = client.temporal.get_workflow_handle(run_id)
    done = [
        event.event_id
        async for event in handle.fetch_history_events()
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
    ]
    described = await handle.describe()
    await client.temporal.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=client.temporal.namespace,
            workflow_execution=WorkflowExecution(workflow_id=run_id, run_id=described.run_id),
            reason="try again",
            workflow_task_finish_event_id=done[1],
            request_id=uuid.uuid4().hex,
        )
    )


async def test_a_reset_run_is_told_on(serve):
    """A follower hears of the reset and what comes after it; the calls after the point are made again."""
    tools, made, go = Toolset("test.tools"), [], asyncio.Event()

    @tools.tool
    async def note() -> int:
        """Count; the second call waits."""
        made.append(1)
        if len(made) == 2:
            await go.wait()
        return len(made)

    planner = ScriptedPlanner([calling("c1"), calling("c2"), PlanResult.final("done")])
    client = await serve(planner=planner, uses=(tools,))
    run = await client.start("test.agent", "go")
    told, is_reset = [], False
    ending = asyncio.create_task(run.result())
    async for event in run.events():
        if event.event_id:
            told.append(event)
        if event.type == "tool_start" and event.tool_call_id == "c2" and not is_reset:
            is_reset = True
            await reset_to_first_plan(client, run.id)
            go.set()
    kinds = [(event.event_id[0], event.type) for event in told]
    notes = [event.text for event in told if event.type == "planner_note"]
    assert notes == ["the run was reset to this point: try again"]
    assert ("0", "tool_start") in kinds
    assert [kind for kind in kinds if kind[1] == "run_completed"] == [("1", "run_completed")]
    ids = [event.event_id for event in told]
    assert ids == sorted(set(ids))
    assert kinds[-1] == ("1", "run_stream_end")
    later = [event async for event in run.events()]
    assert later == [event for event in told if event in later]
    assert [event.tool_call_id for event in later if event.type == "tool_end"] == ["c1", "c2"]
    assert (await run.status()).status == "completed"
    assert (await ending).text == "done"


@workflow.defn(name="AgentRun")
class Continuing:
    """A run that goes on as new, until it is the third."""

    @workflow.run
    async def run(self, given: RunInput) -> RunOutput:
        if len(given.messages) < 3:
            workflow.continue_as_new(
                given.model_copy(update={"messages": [*given.messages, Message.user("more")]})
            )
        final = Message.assistant(str(len(given.messages)))
        return RunOutput(run_id=workflow.info().workflow_id, agent_id=given.agent_id, final=final)


@pytest.mark.parametrize("follow", [True, False])
async def test_a_continued_run_is_one_stream(temporal_address, follow):
    """Each execution of a chain adds to one stream, under ids that grow."""
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    async with Worker(
        client.temporal,
        task_queue=client.task_queue,
        workflows=[Continuing],
        workflow_runner=UnsandboxedWorkflowRunner(),
    ):
        run = await client.start("test.agent", "go", wait_for_worker=True)
        assert (await run.result()).text == "3"
        events = [event async for event in run.events(follow=follow)]
    assert [event.type for event in events] == ["run_started", "run_completed", "run_stream_end"]
    assert [event.event_id.split("-")[0] for event in events] == ["0", "2", "2"]
    rest = [event async for event in run.events(after=events[0].event_id, follow=follow)]
    assert rest == events[1:]

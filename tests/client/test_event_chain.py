"""Events of a run with several executions: after a reset by an operator, and after continue-as-new."""

import asyncio
import uuid

import pytest
from pydantic import BaseModel
from temporalio import workflow
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from sojourn import (
    Agent,
    AgentTool,
    App,
    AwaitClarification,
    Client,
    Message,
    PlanResult,
    RunOutput,
    RunPolicy,
    ToolRequest,
    Toolset,
    Turn,
)
from sojourn.contracts import RunInput
from sojourn.events.cursor import Position
from sojourn.events.stream import stream
from sojourn.testing.scripted import ScriptedPlanner


def calling(id: str) -> PlanResult:
    return PlanResult.calls(ToolRequest(name="test.tools.note", payload={}, tool_call_id=id))


async def reset_to_first_plan(client: Client, run_id: str) -> None:
    """Reset a run to the workflow task that follows its first plan, as `temporal workflow reset` does."""
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


async def test_a_follower_gets_the_events_after_a_reset(serve):
    """A follower gets a note of the reset, and the events after it; calls after the reset's point are executed again."""
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
    seen, is_reset = [], False
    ending = asyncio.create_task(run.result())
    async for event in run.events():
        if event.event_id:
            seen.append(event)
        if event.type == "tool_start" and event.tool_call_id == "c2" and not is_reset:
            is_reset = True
            await reset_to_first_plan(client, run.id)
            go.set()
    kinds = [(event.event_id[0], event.type) for event in seen]
    notes = [event.text for event in seen if event.type == "planner_note"]
    assert notes == ["the run was reset to this point: try again"]
    assert ("0", "tool_start") in kinds
    assert [kind for kind in kinds if kind[1] == "run_completed"] == [("1", "run_completed")]
    ids = [event.event_id for event in seen]
    assert ids == sorted(set(ids))
    assert kinds[-1] == ("1", "run_stream_end")
    later = [event async for event in run.events()]
    assert later == [event for event in seen if event in later]
    assert [event.tool_call_id for event in later if event.type == "tool_end"] == ["c1", "c2"]
    assert (await run.status()).status == "completed"
    assert (await ending).text == "done"


class Question(BaseModel):
    text: str


def family(after_reset: list[PlanResult]) -> App:
    """An app whose parent calls a tool, then a child run that asks a person; after a reset it plans `after_reset` instead."""
    tools = Toolset("test.tools")

    @tools.tool
    async def note() -> str:
        """Succeed."""
        return "noted"

    policy = RunPolicy(interrupts_allowed=True)
    asks = [PlanResult.ask(AwaitClarification(id="q", question="which?")), PlanResult.final("this one")]
    child = Agent("test.child", planner=ScriptedPlanner(asks), policy=policy)
    asked = child.export("test.children", tools=[AgentTool("ask", args=Question)])
    ask = ToolRequest(name="test.children.ask", payload={"text": "?"}, tool_call_id="c2")
    made: list[int] = []

    async def plan(turn: Turn) -> PlanResult:
        plans = [calling("c1"), PlanResult.calls(ask), PlanResult.final("done")]
        number = sum(message.role == "assistant" for message in turn.messages)
        if number == 1:
            made.append(1)
            if len(made) > 1 and after_reset:
                return after_reset[0]
        return plans[number]

    return App(agents=[Agent("test.agent", planner=plan, uses=[tools, asked], policy=policy), child])


class Torn:
    """A Temporal client that loses its server when a child run starts; with `is_deaf` it gets no new events of that run."""

    def __init__(self, inner, run_id: str, meanwhile, *, is_deaf: bool) -> None:
        self._inner = inner
        self._run_id = run_id
        self._meanwhile = [meanwhile]
        self._is_deaf = is_deaf

    def __getattr__(self, name: str):
        return getattr(self._inner, name)

    def get_workflow_handle(self, workflow_id: str, **more):
        handle = self._inner.get_workflow_handle(workflow_id, **more)
        return TornHandle(handle, self._meanwhile, is_deaf=self._is_deaf and workflow_id != self._run_id)


class TornHandle:
    """A handle of one run by such a client."""

    def __init__(self, inner, meanwhile: list, *, is_deaf: bool) -> None:
        self._inner = inner
        self._meanwhile = meanwhile
        self._is_deaf = is_deaf

    def __getattr__(self, name: str):
        return getattr(self._inner, name)

    def fetch_history_events(self, *, wait_new_event: bool = False, **more):
        pages = self._inner.fetch_history_events(wait_new_event=wait_new_event, **more)
        return TornPages(pages, self._meanwhile, is_deaf=wait_new_event and self._is_deaf)


class TornPages:
    """The history of a run as such a handle has it."""

    def __init__(self, inner, meanwhile: list, *, is_deaf: bool) -> None:
        self._inner = inner
        self._meanwhile = meanwhile
        self._is_deaf = is_deaf
        self._is_torn = False

    def __getattr__(self, name: str):
        return getattr(self._inner, name)

    def __aiter__(self):
        return self

    async def __anext__(self):
        if self._is_deaf:
            await asyncio.Event().wait()
        if self._is_torn:
            self._is_torn = False
            await self._meanwhile.pop()()
            raise RPCError("away", RPCStatusCode.UNAVAILABLE, b"")
        event = await anext(self._inner)
        started = EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED
        self._is_torn = bool(self._meanwhile) and event.event_type == started
        return event


async def test_events_of_a_child_that_a_reset_run_no_longer_calls_come_before_the_end(serve):
    """If the follower missed the reset, the child's call has no end: the child's events come before the end of its parent."""
    client = await serve(family([PlanResult.final("without it")]))
    run = await client.start("test.agent", "go")
    child = client.get_run(f"{run.id}/c2")
    torn = Torn(client.temporal, run.id, lambda: reset_to_first_plan(client, run.id), is_deaf=True)
    seen = [event async for event in stream(torn, run.id, after=Position({}), follow=True, children=True)]
    assert next(event.type for event in seen if event.run_id == child.id) == "run_started"
    assert (seen[-1].type, seen[-1].run_id) == ("run_stream_end", run.id)
    assert [event.tool_call_id for event in seen if event.type == "tool_end"] == ["c1", "c1"]
    assert (await run.result()).text == "without it"
    await child.cancel()


@pytest.mark.parametrize("is_late", [False, True])
async def test_events_of_a_child_that_a_reset_run_calls_again_come_once(serve, until, is_late):
    """If the follower missed the reset, the events of the restarted child run come from their beginning, and once.

    With `is_late` it reads on in its parent's history only once the restarted child asks.
    """
    client = await serve(family([]))
    run = await client.start("test.agent", "go")
    child, asked = client.get_run(f"{run.id}/c2"), asyncio.Event()

    async def reset() -> None:
        await asked.wait()
        before = (await client.temporal.get_workflow_handle(child.id).describe()).run_id
        await reset_to_first_plan(client, run.id)
        if is_late:
            await until(lambda: is_asking_again(before))

    async def is_asking_again(before: str) -> bool:
        now = (await client.temporal.get_workflow_handle(child.id).describe()).run_id
        return now != before and bool((await child.status()).awaits)

    torn, seen = Torn(client.temporal, run.id, reset, is_deaf=False), []
    async for event in stream(torn, run.id, after=Position({}), follow=True, children=True):
        seen.append(event)
        if event.type == "await_clarification":
            if asked.is_set():
                await child.answer(None, "this")
            asked.set()
    alone = [event async for event in child.events()]
    first, *anew = [place for place, event in enumerate(seen) if event.type == "agent_run_started"]
    assert len(anew) == 1
    assert [event for event in seen[anew[0] :] if event.run_id == child.id] == alone
    assert [event.type for event in seen[first : anew[0]] if event.run_id == child.id][
        -1
    ] == "await_clarification"


@workflow.defn(name="AgentRun")
class Continuing:
    """A run that continues as new until its third execution."""

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
    """The executions of a chain are one stream, with ascending event ids."""
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
    continued = ["run_continued"] * 2
    assert [event.type for event in events] == ["run_started", *continued, "run_completed", "run_stream_end"]
    assert [event.event_id.split("-")[0] for event in events] == ["0", "0", "1", "2", "2"]
    rest = [event async for event in run.events(after=events[0].event_id, follow=follow)]
    assert rest == events[1:]


async def test_a_follower_of_a_child_alone_gets_the_events_of_its_new_start(serve):
    """A parent that is reset starts its child anew, with event ids from the beginning; a follower of the child gets them all."""
    client = await serve(family([]))
    run = await client.start("test.agent", "go")
    child, asked = client.get_run(f"{run.id}/c2"), 0
    async for event in run.events():
        if event.type == "agent_run_started":
            break
    seen = []
    async for event in child.events():
        seen.append(event)
        if event.type == "await_clarification":
            asked += 1
            if asked == 1:
                await reset_to_first_plan(client, run.id)
            else:
                await child.answer(None, "this")
    (_, anew) = [place for place, event in enumerate(seen) if event.type == "run_started"]
    assert seen[anew:] == [event async for event in child.events()]

"""A cancellation that no activity learned of before it ended still ends the run, and nothing begins after it."""

import asyncio
from datetime import timedelta
from itertools import product

import pytest
from pydantic import BaseModel
from temporalio.api.enums.v1 import EventType

from sojourn import (
    Agent,
    AgentTool,
    App,
    AwaitClarification,
    InputForm,
    InputRequired,
    PlanResult,
    RunPolicy,
    ToolCallMeta,
    ToolRequest,
    ToolResult,
    Toolset,
)
from sojourn.errors import RunCanceled
from tests.resets import reset

BEGINNINGS = {
    EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED,
    EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED,
    EventType.EVENT_TYPE_TIMER_STARTED,
    EventType.EVENT_TYPE_MARKER_RECORDED,
}
FORM = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


class Question(BaseModel):
    text: str = ""


class Stage:
    """Tools that cancel their own run, and return before a heartbeat could bring the cancellation."""

    def __init__(self) -> None:
        self.client = None
        self.tools = Toolset("test.tools")
        self.executed: list[str] = []

        @self.tools.tool
        async def work(meta: ToolCallMeta, name: str = "") -> str:
            """Work."""
            self.executed.append(f"{name}{meta.labels or ''}")
            return name

        @self.tools.tool
        async def halt(meta: ToolCallMeta) -> str:
            """Cancel the run, and answer."""
            await self.cancel(meta.run_id, meta.labels)
            return "halted"

        @self.tools.tool(local=True, read_only=True)
        async def halt_near(meta: ToolCallMeta) -> str:
            """Cancel the run beside the workflow, and answer."""
            await self.cancel(meta.run_id, meta.labels)
            return "halted"

        @self.tools.tool
        async def halt_and_ask(meta: ToolCallMeta) -> ToolResult:
            """Cancel the run, and ask a person."""
            await self.cancel(meta.run_id, meta.labels)
            return ToolResult(
                input_required=InputRequired(forms=[InputForm(key="k", message="n?", form=FORM)])
            )

    async def cancel(self, run_id: str, labels: dict[str, str]) -> None:
        """Cancel a run; it is also paused, `before` or `after` that, if its label `pause` says so."""
        assert self.client is not None
        handle = self.client.temporal.get_workflow_handle(run_id)
        if labels.get("pause") == "before":
            await handle.signal("pause", {})
        await self.client.get_run(run_id).cancel("enough")
        if labels.get("pause") == "after":
            await handle.signal("pause", {})


def calls(*names: str) -> PlanResult:
    return PlanResult.calls(*[ToolRequest(name=f"test.tools.{name}") for name in names])


async def assert_ended(run, traces) -> None:
    """Assert that the run was canceled, and that no workflow task after the request began anything."""
    with pytest.raises(RunCanceled, match="enough"):
        await run.result()
    history = await traces(run).history()
    requested = next(
        event.event_id
        for event in history
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED
    )
    next_task = next(
        event.event_id
        for event in history
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED and event.event_id > requested
    )
    began = [
        event.event_type
        for event in history
        if event.event_id > next_task
        and event.event_type in BEGINNINGS
        and event.marker_recorded_event_attributes.marker_name != "core_patch"
    ]
    assert began == []
    await traces(run).check()
    events = [event async for event in run.events()]
    started = [event.call.tool_call_id for event in events if event.type == "tool_start"]
    ended = [event.result.tool_call_id for event in events if event.type == "tool_end"]
    assert sorted(started) == sorted(ended)
    messages = await run.transcript()
    asked = [call.tool_call_id for message in messages for call in message.tool_calls]
    assert asked == [result.tool_call_id for message in messages for result in message.tool_results]


PAUSES = ("", "before", "after")
PLANS = {
    "waits": PlanResult.wait(timedelta(hours=1)),
    "asks": PlanResult.ask(AwaitClarification(question="?")),
    "calls": calls("work"),
    "calls three": calls("work", "work", "work"),
    "calls an agent": PlanResult.calls(
        ToolRequest(name="test.desk.ask"), ToolRequest(name="test.tools.work")
    ),
    "calls outside": PlanResult.calls(ToolRequest(name="test.outside.pick")),
    "is faulty": PlanResult(),
    "answers": PlanResult.final("done"),
    "fails": PlanResult.fail("no"),
}


async def test_a_plan_that_ends_in_spite_of_a_cancel(serve, traces):
    """Whatever the plan asks for, the run ends as canceled and begins nothing, with or without a time budget, and although it was paused."""
    stage = Stage()
    outside = Toolset("test.outside", external=True)
    outside.declare("pick", args=dict[str, int], result=int)

    async def answer(turn):
        return PlanResult.final("below")

    below = Agent("test.below", planner=answer)
    desk = below.export("test.desk", tools=[AgentTool("ask", args=Question)])

    async def planner(turn):
        await stage.cancel(turn.run.run_id, turn.run.labels)
        return PLANS[turn.run.labels["plan"]]

    budgets = {"": None, "budgeted": timedelta(minutes=5)}
    agents = [
        Agent(
            f"test.agent{name}",
            planner=planner,
            uses=[stage.tools, desk, outside],
            policy=RunPolicy(interrupts_allowed=True, time_budget=budget),
        )
        for name, budget in budgets.items()
    ]
    stage.client = await serve(App(agents=[*agents, below]))
    # Every plan with every pause; each plan and each pause with and without a time budget.
    cases = [
        (agents[(number + number // 3) % 2].id, {"plan": plan, "pause": pause})
        for number, (plan, pause) in enumerate(product(PLANS, PAUSES))
    ]
    runs = [await stage.client.start(agent, "go", labels=labels) for agent, labels in cases]
    await asyncio.gather(*(assert_ended(run, traces) for run in runs))
    assert stage.executed == []


async def test_a_call_that_ends_in_spite_of_a_cancel(serve, traces):
    """The calls behind it in the queue do not begin, its own question is not asked, and no plan follows."""
    stage = Stage()

    async def planner(turn):
        if len(turn.messages) > 1:
            return PlanResult.wait(timedelta(hours=1))
        return calls(*turn.run.labels["names"].split())

    policy = RunPolicy(interrupts_allowed=True, max_parallel_calls=1)
    stage.client = await serve(planner=planner, uses=(stage.tools,), policy=policy)
    cases = product(["halt", "halt_near", "halt_and_ask", "halt work"], PAUSES)
    runs = [
        await stage.client.start("test.agent", "go", labels={"names": names, "pause": pause})
        for names, pause in cases
    ]
    await asyncio.gather(*(assert_ended(run, traces) for run in runs))
    assert stage.executed == []


async def test_a_child_that_ends_in_spite_of_a_cancel(serve, traces, until):
    """A parent cancelled during the last plan of its child begins nothing more, and its child has ended."""
    stage = Stage()

    async def halt(turn):
        await stage.cancel(turn.run.parent.parent_run_id, {})
        own = traces(stage.client.get_run(turn.run.run_id))
        await until(lambda: own.count(EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED))
        return calls("work")

    async def planner(turn):
        return PlanResult.calls(ToolRequest(name="test.desk.ask"))

    below = Agent("test.below", planner=halt, uses=[stage.tools])
    desk = below.export("test.desk", tools=[AgentTool("ask", args=Question)])
    stage.client = await serve(App(agents=[Agent("test.agent", planner=planner, uses=[desk]), below]))
    run = await stage.client.start("test.agent", "go")
    await assert_ended(run, traces)
    link = (await run.status()).calls[0].run_link
    with pytest.raises(RunCanceled):
        await stage.client.get_run(link.run_id).result()
    assert stage.executed == []


async def test_cancel_twice_while_paused(serve, traces, status_when):
    """A second cancel changes nothing, and a pause does not keep the run open."""
    stage = Stage()

    async def planner(turn):
        return PlanResult.ask(AwaitClarification(question="?"))

    stage.client = await serve(planner=planner, policy=RunPolicy(interrupts_allowed=True))
    run = await stage.client.start("test.agent", "go")
    await status_when(run, lambda status: status.awaits)
    await run.pause("look")
    await run.cancel("enough")
    await run.cancel("enough")
    await assert_ended(run, traces)


async def test_cancel_after_a_reset(serve, traces, status_when):
    """A run that was reset is cancelled like any other."""
    stage = Stage()

    async def planner(turn):
        return calls("work") if len(turn.messages) == 1 else PlanResult.ask(AwaitClarification(question="?"))

    stage.client = await serve(
        planner=planner, uses=(stage.tools,), policy=RunPolicy(interrupts_allowed=True)
    )
    run = await stage.client.start("test.agent", "go")
    await status_when(run, lambda status: status.awaits)
    await reset_to(stage.client, run, traces, EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)
    await status_when(run, lambda status: status.awaits)
    assert stage.executed == ["", ""]
    await run.cancel("enough")
    with pytest.raises(RunCanceled, match="enough"):
        await run.result()


async def test_a_reset_parent_ends_the_child_it_had(serve, traces, status_when, until):
    """A parent that is reset to before its child's start starts it anew; the earlier execution is terminated."""
    script = {"test.below": PlanResult.ask(AwaitClarification(id="q", question="?"))}

    async def planner(turn):
        if turn.tool_results:
            return PlanResult.final(str(turn.tool_results[0].result))
        return PlanResult.calls(ToolRequest(name="test.desk.ask"))

    async def below(turn):
        return PlanResult.final("below") if turn.messages[-1].text == "yes" else script["test.below"]

    policy = RunPolicy(interrupts_allowed=True)
    child = Agent("test.below", planner=below, policy=policy)
    desk = child.export("test.desk", tools=[AgentTool("ask", args=Question)])
    client = await serve(
        App(agents=[Agent("test.agent", planner=planner, uses=[desk], policy=policy), child])
    )
    run = await client.start("test.agent", "go")
    link = (await status_when(run, lambda status: status.child_awaits)).calls[0].run_link
    before = await client.temporal.get_workflow_handle(link.run_id).describe()
    await reset_to(client, run, traces, EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)

    async def anew():
        now = await client.temporal.get_workflow_handle(link.run_id).describe()
        status = await client.get_run(link.run_id).status()
        return now.run_id != before.run_id and status.awaits

    await until(anew)
    old = await client.temporal.get_workflow_handle(link.run_id, run_id=before.run_id).describe()
    assert old.status is not None
    assert old.status.name == "TERMINATED"
    await client.get_run(link.run_id).answer("q", "yes")
    assert (await run.result()).text == "below"


async def reset_to(client, run, traces, kind) -> None:
    """Reset a run to its first event of this type."""
    first = next(event for event in await traces(run).history() if event.event_type == kind)
    await reset(client, run.id, first.event_id)

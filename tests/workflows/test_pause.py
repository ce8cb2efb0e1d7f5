"""Pause and resume: nothing new starts, what runs finishes, and time budgets stand still."""

import asyncio
from datetime import timedelta

import pytest
from pydantic import BaseModel
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowUpdateFailedError

from sojourn import (
    Agent,
    AgentTool,
    App,
    AwaitClarification,
    AwaitClosed,
    PlanResult,
    Run,
    RunNotFound,
    RunPolicy,
    ToolRequest,
    Toolset,
)
from sojourn.core.awaits.steering import NUMBER
from sojourn.testing.scripted import ScriptedPlanner


class Gate:
    """A tool that returns when the test opens the gate."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.open = asyncio.Event()
        self.tools = Toolset("test.tools")

        @self.tools.tool
        async def work(name: str) -> str:
            """Work until the gate opens."""
            self.started.append(name)
            await self.open.wait()
            return name


def work(name: str) -> ToolRequest:
    return ToolRequest(name="test.tools.work", payload={"name": name})


def report(turn):
    """Answer with the turn's id and the messages that came after the first."""
    texts = [m.text for m in turn.messages if m.role == "user"][1:]
    return PlanResult.final(f"{turn.run.turn_id} {texts}")


async def test_a_long_tool_finishes_and_nothing_new_starts(serve, until, status_when, traces):
    """Queued calls of the same step, and the next plan, start after `resume`."""
    gate = Gate()
    script = ScriptedPlanner([PlanResult.calls(work("a"), work("b")), PlanResult.calls(work("c")), report])
    client = await serve(planner=script, uses=(gate.tools,), policy=RunPolicy(max_parallel_calls=1))
    run = await client.start("test.agent", "go")
    await until(lambda: gate.started == ["a"])
    await run.pause("let me look", by="ana")
    gate.open.set()
    status = await status_when(run, lambda status: status.calls[0].state == "done")
    assert (status.status, status.paused, gate.started) == ("paused", "let me look", ["a"])
    await asyncio.sleep(0.5)
    assert gate.started == ["a"]
    await run.resume("fine", by="ana")
    assert (await run.result()).text == "t1 []"
    assert gate.started == ["a", "b", "c"]
    steered = [(e.type, e.text, e.by) async for e in run.events() if e.type in ("run_paused", "run_resumed")]
    assert steered == [("run_paused", "let me look", "ana"), ("run_resumed", "fine", "ana")]
    await traces(run).check()


async def test_a_resume_that_lifts_a_limit_takes_its_notice_back(serve, until, status_when):
    """`max_tool_rounds` holds for a turn: after a resume with a message the planner is not asked to answer at once."""
    gate, turns = Gate(), []

    async def second_round(_turn):
        gate.started.append("second plan")
        await gate.open.wait()
        return PlanResult.calls(work("b"))

    def last(turn):
        turns.append(([m.role for m in turn.messages][-3:], turn.finalize, turn.run.turn_id))
        return report(turn)

    first = PlanResult.calls(ToolRequest(name="test.tools.none", payload={}))
    script = ScriptedPlanner([first, second_round, last])
    client = await serve(planner=script, uses=(gate.tools,), policy=RunPolicy(max_tool_rounds=1))
    run = await client.start("test.agent", "go")
    await until(lambda: gate.started == ["second plan"])
    await run.pause()
    gate.open.set()
    await status_when(run, lambda status: any(call.state == "not_executed" for call in status.calls))
    await run.resume(messages=["look at b too"])
    assert (await run.result()).reason == "answered"
    assert gate.started == ["second plan"]
    assert turns == [(["assistant", "tool", "user"], None, "t2")]


async def test_resume_with_messages_begins_a_new_turn(serve, until, status_when, traces):
    """Messages of `resume` follow the results of the step, in a turn of their own."""
    gate = Gate()
    client = await serve(planner=ScriptedPlanner([PlanResult.calls(work("a")), report]), uses=(gate.tools,))
    run = await client.start("test.agent", "go")
    await until(lambda: gate.started == ["a"])
    await run.pause()
    gate.open.set()
    await status_when(run, lambda status: status.calls[0].state == "done")
    await run.resume(messages=["look at b too", "and c"])
    assert (await run.result()).text == "t2 ['look at b too', 'and c']"
    roles = [message.role for message in await traces(run).check()]
    assert roles == ["user", "assistant", "tool", "user", "user", "assistant"]
    (resumed,) = [event async for event in run.events() if event.type == "run_resumed"]
    assert resumed.messages == ["look at b too", "and c"]


async def test_signals_from_temporals_cli_do_the_same(serve, until, status_when, traces):
    """The signals `pause` and `resume` work with and without input; `resume` without a pause becomes a note."""
    gate = Gate()
    gate.open.set()
    script = ScriptedPlanner([PlanResult.ask(AwaitClarification(id="q", question="?")), report])
    client = await serve(planner=script, policy=RunPolicy(interrupts_allowed=True))
    run = await client.start("test.agent", "go")
    await status_when(run, lambda status: status.awaits)
    handle = traces(run).handle
    await handle.signal("resume")
    await handle.signal("pause")
    status = await status_when(run, lambda status: status.status == "paused")
    assert [wait.id for wait in status.awaits] == ["q"]
    assert status.notes == ["resume refused: the run is not paused"]
    await run.answer("q", "yes")
    await handle.signal("pause", "once more")
    await status_when(run, lambda status: status.paused == "once more" and not status.awaits)
    await handle.signal("resume", {"messages": "go on"})
    assert (await run.result()).text == "t3 ['yes', 'go on']"


async def test_resume_needs_a_pause(serve, status_when):
    """`resume` of a run that is not paused, and `pause` of an ended run, raise `AwaitClosed`."""
    script = ScriptedPlanner([PlanResult.ask(AwaitClarification(question="?")), report])
    client = await serve(planner=script, policy=RunPolicy(interrupts_allowed=True))
    run = await client.start("test.agent", "go")
    await status_when(run, lambda status: status.awaits)
    with pytest.raises(AwaitClosed, match="not paused"):
        await run.resume()
    await run.answer(None, "x")
    await run.result()
    with pytest.raises(AwaitClosed, match="has ended"):
        await run.pause()


async def test_a_child_run_pauses_with_its_parent(serve, until, status_when, traces):
    """The child's call in flight finishes, nothing new starts, and `resume` continues both runs."""
    gate = Gate()

    class Question(BaseModel):
        text: str

    below = ScriptedPlanner(
        [PlanResult.calls(work("x")), PlanResult.calls(work("y")), PlanResult.final("below")]
    )
    child = Agent("test.child", planner=below, uses=[gate.tools])
    asked = child.export("test.below", tools=[AgentTool("ask", args=Question)])
    call = ToolRequest(name="test.below.ask", payload={"text": "?"})
    parent = Agent(
        "test.agent",
        planner=ScriptedPlanner([PlanResult.calls(call), PlanResult.final("done")]),
        uses=[asked],
    )
    client = await serve(App(agents=[parent, child]))
    run = await client.start("test.agent", "go")
    await until(lambda: gate.started == ["x"])
    link = (await status_when(run, lambda status: status.calls[0].run_link)).calls[0].run_link
    await run.pause("stop all")
    under = client.get_run(link.run_id)
    await status_when(under, lambda status: status.status == "paused")
    gate.open.set()
    await status_when(under, lambda status: status.calls[0].state == "done")
    assert gate.started == ["x"]
    await run.resume()
    assert (await run.result()).text == "done"
    assert gate.started == ["x", "y"]
    await traces(run).check()
    await traces(under).check()


async def test_the_time_budget_stands_still_while_paused(serve, until, status_when):
    """A run that is paused for longer than its time budget still answers within it."""
    gate = Gate()
    script = ScriptedPlanner([PlanResult.calls(work("a")), PlanResult.calls(work("b")), report])
    policy = RunPolicy(time_budget=timedelta(seconds=4))
    client = await serve(planner=script, uses=(gate.tools,), policy=policy)
    run = await client.start("test.agent", "go")
    await until(lambda: gate.started == ["a"])
    await run.pause()
    gate.open.set()
    await status_when(run, lambda status: status.calls[0].state == "done")
    await asyncio.sleep(4.5)
    await run.resume()
    out = await run.result()
    assert out.reason == "answered"
    assert out.active_time < policy.time_budget


@pytest.mark.parametrize("state", ["paused", "asking", "approving", "outside", "sleeping"])
async def test_cancel_works_from_every_state(serve, until, status_when, traces, state):
    """A run that is paused, or waits for anything, ends when it is canceled."""
    gate = Gate()
    outside = Toolset("test.outside", external=True)
    outside.declare("pick", args=dict[str, int], result=int)

    @gate.tools.tool(destructive=True)
    async def wipe() -> str:
        """Destroy."""
        raise AssertionError

    plan = {
        "paused": PlanResult.calls(work("a")),
        "asking": PlanResult.ask(AwaitClarification(question="?")),
        "approving": PlanResult.calls(ToolRequest(name="test.tools.wipe")),
        "outside": PlanResult.calls(ToolRequest(name="test.outside.pick")),
        "sleeping": PlanResult.wait(timedelta(days=3)),
    }[state]
    script = ScriptedPlanner([plan, report])
    client = await serve(
        planner=script, uses=(gate.tools, outside), policy=RunPolicy(interrupts_allowed=True)
    )
    run = await client.start("test.agent", "go")
    if state == "paused":
        await until(lambda: gate.started == ["a"])
        await run.pause()
        gate.open.set()
        await status_when(run, lambda status: status.calls[0].state == "done")
    else:
        await status_when(run, lambda status: status.awaits or status.phase == "waiting")
    await run.cancel("enough")
    with pytest.raises(Exception, match="enough"):
        await run.result()
    events = [event.type async for event in run.events()]
    assert events[-2:] == ["run_canceled", "run_stream_end"]
    assert events.count("tool_start") == events.count("tool_end")


async def test_child_runs_obey_their_parents_last_signal(serve, until, status_when, traces):
    """The last of pauses and resumes in quick succession holds, in whatever order they arrive at child runs."""
    gate = Gate()

    class Question(BaseModel):
        text: str

    async def below(turn):
        return PlanResult.final("below") if turn.tool_results else PlanResult.calls(work("x"))

    child = Agent("test.child", planner=below, uses=[gate.tools])
    asked = child.export("test.below", tools=[AgentTool("ask", args=Question)])
    calls = [ToolRequest(name="test.below.ask", payload={"text": "?"})] * 4
    planner = ScriptedPlanner([PlanResult.calls(*calls), PlanResult.final("done")])
    client = await serve(App(agents=[Agent("test.agent", planner=planner, uses=[asked]), child]))
    run = await client.start("test.agent", "go")
    await until(lambda: len(gate.started) == 4)
    handle = client.temporal.get_workflow_handle(run.id)
    for _ in range(4):
        await handle.signal("pause", {"reason": "look"})
        await handle.signal("resume", {})

    async def delivered() -> bool:
        signaled = await traces(run).count(EventType.EVENT_TYPE_EXTERNAL_WORKFLOW_EXECUTION_SIGNALED)
        return signaled == 4 * 8

    await until(delivered)
    gate.open.set()
    assert (await run.result()).text == "done"
    for call in (await run.status()).calls:
        events = [event async for event in client.get_run(call.run_link.run_id).events()]
        applied = [event.type for event in events if event.type in ("run_paused", "run_resumed")]
        assert applied[-1:] in ([], ["run_resumed"])  # a resume that arrives before its pause changes nothing
        assert not [event for event in events if event.type == "planner_note"]


async def test_only_a_signal_that_is_applied_goes_to_child_runs(serve, until, status_when, traces):
    """A resume that arrives after the pause that was sent later is not sent to child runs either."""

    class Question(BaseModel):
        text: str = ""

    child = Agent("test.child", planner=ScriptedPlanner([PlanResult.wait(timedelta(days=1))]))
    asked = child.export("test.below", tools=[AgentTool("ask", args=Question)])
    planner = ScriptedPlanner([PlanResult.calls(ToolRequest(name="test.below.ask")), report])
    client = await serve(App(agents=[Agent("test.agent", planner=planner, uses=[asked]), child]))
    run = await client.start("test.agent", "go")
    below = client.get_run((await status_when(run, lambda status: status.calls)).calls[0].run_link.run_id)
    await until(lambda: exists(below))
    await status_when(below, lambda status: status.phase == "waiting")
    handle = traces(run).handle
    await handle.signal("pause", {"reason": "look", NUMBER: 2})
    await handle.signal("resume", {NUMBER: 1})
    await run.stop_asking("*")  # an update, which is handled after both signals
    assert (await run.status()).paused == "look"
    await status_when(below, lambda status: status.paused == "look")
    signals = await traces(run).count(EventType.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED)
    assert signals == 1
    await run.cancel()


async def test_a_child_run_starts_after_the_pause(serve, status_when, traces):
    """The child run of a plan that is returned while the run is paused starts after `resume`."""

    class Question(BaseModel):
        text: str = ""

    async def plan(turn):
        if turn.tool_results:
            return PlanResult.final(turn.tool_results[0].result)
        await client.get_run(turn.run.run_id).pause("look")
        return PlanResult.calls(ToolRequest(name="test.below.ask"))

    child = Agent("test.child", planner=ScriptedPlanner([PlanResult.final("below")]))
    asked = child.export("test.below", tools=[AgentTool("ask", args=Question)])
    client = await serve(App(agents=[Agent("test.agent", planner=plan, uses=[asked]), child]))
    run = await client.start("test.agent", "go")
    await status_when(run, lambda status: status.calls)
    started = EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED
    assert await traces(run).count(started) == 0
    await run.resume()
    assert (await run.result()).text == "below"
    assert await traces(run).count(started) == 1


async def exists(run: Run) -> bool:
    """Whether the server has started the run."""
    try:
        await run.status()
    except RunNotFound:
        return False
    return True


async def test_a_child_that_starts_meanwhile_pauses_too(serve, until, status_when, traces):
    """A pause that arrives while child runs are being started reaches each of them."""

    class Question(BaseModel):
        text: str

    async def below(turn):
        return PlanResult.final("below") if turn.tool_results else PlanResult.wait(timedelta(days=1))

    child = Agent("test.child", planner=below)
    asked = child.export("test.below", tools=[AgentTool("ask", args=Question)])
    calls = [ToolRequest(name="test.below.ask", payload={"text": "?"})] * 12
    planner = ScriptedPlanner([PlanResult.calls(*calls)])
    client = await serve(App(agents=[Agent("test.agent", planner=planner, uses=[asked]), child]))
    run = await client.start("test.agent", "go")
    handle = traces(run).handle
    while not (await handle.describe()).raw_description.pending_children:
        await asyncio.sleep(0)  # no longer, since the next moments are those that the test is about
    await handle.signal("pause", {"reason": "look"})

    async def is_paused(child: Run) -> bool:
        # The parent's status shows the link before the server has started the child run.
        return await exists(child) and (await child.status()).paused == "look"

    status = await status_when(run, lambda status: status.paused == "look" and len(status.calls) == 12)
    for link in [call.run_link for call in status.calls if call.run_link]:
        await until(lambda link=link: is_paused(client.get_run(link.run_id)))


async def test_an_unknown_field_is_refused_or_noted(serve, status_when, traces):
    """An update with an unknown field is refused; such a signal is applied, and a note names the field."""
    planner = ScriptedPlanner([PlanResult.ask(AwaitClarification(question="Which?")), report])
    client = await serve(planner=planner, policy=RunPolicy(interrupts_allowed=True))
    run = await client.start("test.agent", "go")
    await status_when(run, lambda status: status.awaits)
    handle = traces(run).handle
    for name, sent in (("pause", {"anything": 1}), ("stop_asking", {"tools": ["*"], "until": "noon"})):
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await handle.execute_update(name, sent)
        assert "does not know" in str(refused.value.cause)
    assert (await run.status()).status == "waiting"
    await handle.signal("pause", {"reason": "lunch", "until": "noon"})
    status = await status_when(run, lambda status: status.status == "paused")
    assert status.paused == "lunch"
    (note,) = status.notes
    assert note == 'left out: pause does not know "until"; it takes `reason`, `by`'
    with pytest.raises(WorkflowUpdateFailedError):
        await handle.execute_update("resume", {"message": "now Bern"})
    await run.resume(messages="now Bern")
    await run.answer(None, "s-1")
    assert "'now Bern'" in (await run.result()).text
    notes = [event.text async for event in run.events() if event.type == "planner_note"]
    assert notes == [note]
    await traces(run).check()

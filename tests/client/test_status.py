"""Status and end of a run, as a caller sees them."""

import asyncio
import uuid
from datetime import timedelta

import pytest
from pydantic import BaseModel
from temporalio.exceptions import ApplicationError

from sojourn import (
    Agent,
    AgentTool,
    App,
    AwaitClarification,
    AwaitClosed,
    PlanResult,
    PlanResumeInput,
    Retry,
    RunFailed,
    RunNotFound,
    RunPolicy,
    ToolRequest,
    Toolset,
)
from sojourn.contracts import RunInput
from sojourn.contracts.message import Message
from sojourn.errors import RunCanceled, RunTerminated, RunTimedOut
from sojourn.events.one_run import status_in_history
from sojourn.testing.scripted import ScriptedPlanner


def make_tools() -> Toolset:
    tools = Toolset("test.tools")

    @tools.tool
    async def note() -> str:
        """Succeed."""
        return "noted"

    return tools


async def plan(turn):
    """Do as the first message says, after one call."""
    wish = turn.messages[0].text
    if not turn.tool_results:
        return PlanResult.calls(ToolRequest(name="test.tools.note"), notes=["one call first"])
    if wish == "fail":
        raise ApplicationError("no luck", type="NoLuck", non_retryable=True)
    if wish == "stay":
        await asyncio.Event().wait()
    return PlanResult.final("done")


async def completed(run):
    await run.result()


async def failed(run):
    with pytest.raises(RunFailed, match="no luck") as error:
        await run.result()
    assert error.value.code == "NoLuck"


async def canceled(run):
    await run.cancel("enough")
    with pytest.raises(RunCanceled, match="enough"):
        await run.result()


async def terminated(run):
    await run.client.temporal.get_workflow_handle(run.id).terminate(reason="kill it")
    with pytest.raises(RunTerminated, match="kill it"):
        await run.result()


async def timed_out(run):
    with pytest.raises(RunTimedOut, match="time-out"):
        await run.result()


@pytest.mark.parametrize(
    ("wish", "end", "failure"),
    [
        ("finish", completed, None),
        ("fail", failed, "no luck"),
        ("stay", canceled, "enough"),
        ("stay", terminated, "kill it"),
        ("stay", timed_out, "time-out"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
async def test_the_status_of_a_closed_run(serve, status_when, monkeypatch, wish, end, failure):
    """`result` raises the error of a run that did not complete; `status` has how and why the run ended, and its calls."""
    monkeypatch.setattr("activities.heartbeat.FIRST_BEAT", 0.05)
    monkeypatch.setattr("activities.heartbeat.INTERVAL", 0.2)
    client = await serve(planner=plan, uses=(make_tools(),))
    run = client.get_run(uuid.uuid4().hex)
    await client.temporal.start_workflow(
        "AgentRun",
        RunInput(agent_id="test.agent", messages=[Message.user(wish)], session_id="s"),
        id=run.id,
        task_queue=client.task_queue,
        execution_timeout=timedelta(seconds=5) if end is timed_out else None,
    )
    if wish == "stay":
        await status_when(run, lambda status: status.tool_calls == 1 and status.phase == "planning")
    await end(run)
    status = await run.status()
    assert status.status == end.__name__
    assert (status.agent_id, status.session_id, status.phase, status.awaits) == ("test.agent", "s", "", [])
    assert [(call.name, call.state) for call in status.calls] == [("test.tools.note", "done")]
    assert status.tool_calls == 1
    assert status.notes == ["one call first"]
    assert status.started_at < status.closed_at
    assert status.hints == []
    assert failure is None or failure in status.failure
    assert bool(status.failure_code) is bool(status.failure)


async def test_the_status_of_a_run_that_works(serve, status_when):
    """The status of an open run has its phase, its calls so far and what is left of its limits."""
    client = await serve(planner=plan, uses=(make_tools(),))
    run = await client.start("test.agent", "stay", session_id="s")
    status = await status_when(
        run, lambda status: status.tool_calls == 1 and status.phase == "planning" and status.caps.rounds
    )
    assert (status.status, status.session_id, status.turn_id) == ("running", "s", "t1")
    assert (status.rounds, status.caps.rounds) == (1, 19)
    assert status.run_id == run.run_id == run.id
    assert status.closed_at is None
    await client.temporal.get_workflow_handle(run.id).terminate()


async def test_a_hint_says_what_is_tried_again(serve, status_when):
    """While a plan or a call fails repeatedly, a hint says which attempt is due, and why the last failed."""
    tools = Toolset("test.tools")

    @tools.tool(retry=Retry(max_attempts=20))
    async def ask() -> str:
        """Ask somebody."""
        raise ConnectionError("the site's host is away")

    async def plan(turn):
        if turn.messages[0].text == "call":
            return PlanResult.calls(ask.call())
        raise ConnectionError("the model's host is away")

    client = await serve(planner=plan, uses=(tools,))
    for wish, what, why in (
        (
            "plan",
            "plan: attempt ",
            "the planner of test.agent failed: ConnectionError: the model's host is away (test_status.py:",
        ),
        ("call", " of test.tools.ask: attempt ", "the site's host is away"),
    ):
        run = await client.start("test.agent", wish)
        status = await status_when(run, lambda status: any("attempt" in hint for hint in status.hints))
        (hint,) = status.hints
        assert what in hint
        assert f"; the last failed: {why}" in hint
        await client.temporal.get_workflow_handle(run.id).terminate()


async def plan_and_hold(turn):
    """Two steps, then what the first message says."""
    wish, note = turn.messages[0].text, ToolRequest(name="test.tools.note")
    if isinstance(turn, PlanResumeInput) and turn.finalize:
        await asyncio.Event().wait()
    if len(turn.messages) < 4:
        return PlanResult.calls(note, note)
    match wish:
        case "ask":
            return PlanResult.ask(AwaitClarification(question="Which?"))
        case "approve":
            return PlanResult.calls(ToolRequest(name="test.tools.wipe"))
        case _:
            return PlanResult.calls(note)


@pytest.mark.parametrize(
    ("wish", "phase", "rounds"),
    [("ask", "waiting", 2), ("approve", "executing_tools", 2), ("go on", "finalizing", 4)],
)
async def test_the_status_in_the_history_is_the_queried_one(serve, status_when, wish, phase, rounds):
    """`status_in_history`, which needs no worker, has the phase, rounds, calls and waits of the worker's query."""
    tools = make_tools()

    @tools.tool(confirmation="Wipe?")
    async def wipe() -> str:
        """Wipe."""
        return "wiped"

    client = await serve(
        planner=plan_and_hold, uses=(tools,), policy=RunPolicy(interrupts_allowed=True, max_tool_rounds=3)
    )
    run = await client.start("test.agent", wish)
    queried = await status_when(run, lambda status: (status.phase, status.rounds) == (phase, rounds))
    read = await status_in_history(client.temporal, run.id)
    fields = ("status", "phase", "turn_id", "rounds", "tool_calls", "calls", "awaits")
    assert read.model_dump(include={*fields}) == queried.model_dump(include={*fields})
    await client.temporal.get_workflow_handle(run.id).terminate()


class Question(BaseModel):
    text: str = ""


async def test_the_status_has_the_waits_of_child_runs(serve, status_when):
    """`child_awaits` has the waits of child runs by run id, also those of a child run's child run."""
    policy = RunPolicy(interrupts_allowed=True)

    async def below(turn):
        if turn.run.turn_id.endswith(".2"):
            return PlanResult.final(turn.messages[-1].text)
        return PlanResult.ask(AwaitClarification(id="q", question="Which?"))

    def asking(agent: Agent, id: str):
        toolset = agent.export(f"test.ask-{id}", tools=[AgentTool("ask", args=Question)])
        call = ToolRequest(name=f"test.ask-{id}.ask", tool_call_id=id)
        script = [PlanResult.calls(call), lambda turn: PlanResult.final(turn.tool_results[0].result)]
        return {"planner": ScriptedPlanner(script), "uses": [toolset]}

    low = Agent("test.low", planner=below, policy=policy)
    middle = Agent("test.middle", **asking(low, "c2"))
    top = Agent("test.agent", **asking(middle, "c1"))
    client = await serve(App(agents=[top, middle, low]))
    run = await client.start("test.agent", "go")
    status = await status_when(run, lambda status: status.child_awaits)
    lowest = client.get_run(f"{run.id}/c1/c2")
    assert {id: [wait.id for wait in waits] for id, waits in status.child_awaits.items()} == {
        lowest.id: ["q"]
    }
    await lowest.answer("q", "this one")
    assert (await run.result()).text == "this one"
    assert (await run.status()).child_awaits == {}


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda run: run.result(), id="result"),
        pytest.param(lambda run: run.status(), id="status"),
        pytest.param(lambda run: run.cancel(), id="cancel"),
        pytest.param(lambda run: run.answer("q", "a"), id="answer"),
        pytest.param(lambda run: anext(run.events()), id="events"),
    ],
)
async def test_an_unknown_run_is_not_found(serve, ask):
    """Every method of a run that does not exist raises `RunNotFound`, with the run's id."""
    client = await serve(planner=plan)
    run = client.get_run(uuid.uuid4().hex)
    with pytest.raises(RunNotFound, match=run.id) as error:
        await ask(run)
    assert error.value.run_id == run.id


async def test_an_ended_run_takes_no_answer_and_no_cancel(serve):
    """An answer after the end is refused; a cancellation changes nothing."""
    client = await serve(planner=plan, uses=(make_tools(),))
    run = await client.start("test.agent", "finish")
    out = await run.result()
    with pytest.raises(AwaitClosed):
        await run.answer("late")
    await run.cancel("late too")
    assert await run.result() == out

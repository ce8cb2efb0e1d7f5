"""Notices: functions of the app are told what a run comes to, at least once, and never in its way."""

import asyncio
import uuid

import pytest
from pydantic import SecretStr
from temporalio.client import WorkflowFailureError

from sojourn import (
    Agent,
    AgentTool,
    App,
    AwaitClarification,
    Client,
    PlanResult,
    Principal,
    RunFailed,
    RunPolicy,
    ToolRequest,
    Toolset,
    Worker,
)

ANA = Principal(subject="ana", tenant="acme", roles=["user"])

tools = Toolset("notice.tools")
outside = Toolset("notice.outside", external=True)


@tools.tool(confirmation="Wipe {n}?")
async def wipe(n: int, door: SecretStr | None = None) -> int:
    """Wipe something. No name says that the door is a secret, only its type."""
    return n


weigh = outside.declare(
    "weigh", args=dict[str, int], result=dict[str, int], description="Weigh something, outside."
)


async def plan(turn) -> PlanResult:
    said = [message.text for message in turn.messages if message.role == "user"][-1]
    if turn.messages[-1].role == "tool":
        return PlanResult.final("done")
    if said == "ask":
        return PlanResult.ask(AwaitClarification(id="which", question="which?"))
    if said == "wipe":
        return PlanResult.calls(ToolRequest(name=wipe.id, payload={"n": 1, "door": "4711"}))
    if said == "weigh":
        return PlanResult.calls(weigh.call(n=1))
    if said == "break":
        raise TypeError("no such thing")
    return PlanResult.final(said)


class Told:
    """Keeps what it is told; the first `fails` times it raises."""

    def __init__(self, fails: int = 0) -> None:
        self.notices = []
        self.attempts = []
        self.fails = fails
        self.silent = asyncio.Event()
        self.silent.set()

    async def __call__(self, notice) -> None:
        await self.silent.wait()
        self.attempts.append(notice.id)
        if len(self.attempts) <= self.fails:
            raise ConnectionError("nobody listens")
        self.notices.append(notice)


@pytest.fixture
def told():
    return Told()


@pytest.fixture
def app(told):
    agent = Agent(
        "test.agent", planner=plan, uses=[tools, outside], policy=RunPolicy(interrupts_allowed=True)
    )
    return App(agents=[agent], on_wait=told, on_turn=told, on_end=told)


async def test_a_run_tells_what_it_waits_for_and_how_it_ends(serve, app, told, until, traces):
    client = await serve(app)
    runs = [
        await client.start("test.agent", text, session_id="s", labels={"team": "ops"}, principal=ANA)
        for text in ("ask", "wipe", "weigh")
    ]
    for run in runs:
        await run.until_waiting()
    await until(lambda: len(told.notices) == 3)
    by_run = {notice.run_id: notice for notice in told.notices}
    ask, wiped, weighed = (by_run[run.id] for run in runs)
    assert (ask.id, ask.await_id, ask.await_type, ask.text) == (
        f"{runs[0].id}/wait/which",
        "which",
        "await_clarification",
        "which?",
    )
    assert (ask.agent_id, ask.session_id, ask.labels, ask.turn_id) == (
        "test.agent",
        "s",
        {"team": "ops"},
        "t1",
    )
    assert (ask.principal, ask.tenant) == (ANA, "acme")
    assert (wiped.await_type, wiped.tool) == ("await_confirmation", "notice.tools.wipe")
    assert (wiped.arguments, ask.arguments, ask.expires_at) == (["n = 1", 'door = "[door]"'], [], None)
    assert (weighed.await_type, weighed.tool) == ("await_external_tools", "notice.outside.weigh")
    await runs[0].answer("this one")
    await runs[1].approve(wiped.await_id)
    (wait,) = (await runs[2].status()).awaits
    await runs[2].provide_tool_results(
        wait.id, [{"tool_call_id": wait.items[0].tool_call_id, "result": {"kg": 3}}]
    )
    for run in runs:
        await run.result()
    await until(lambda: len(told.notices) == 6)
    ends = {notice.run_id: notice for notice in told.notices[3:]}
    assert {(end.kind, end.id, end.reason) for end in ends.values()} == {
        ("end", f"{run.id}/end", "answered") for run in runs
    }
    assert ends[runs[0].id].text == "this one"
    for run in runs:
        await traces(run).check()


async def test_a_conversation_tells_how_each_turn_ends(serve, app, told, until, traces):
    client = await serve(app)
    session = client.session("test.agent", "notices")
    await (await session.send("hello", message_id="m-1")).result()
    with pytest.raises(RunFailed):
        await (await session.send("break", message_id="m-2")).result()
    asked = await session.send("ask")
    await session.run.until_waiting()
    await session.send("never mind", mode="interrupt", message_id="m-4")
    with pytest.raises(RunFailed):
        await asked.result()
    await session.close("enough")
    await session.run.result()
    await until(lambda: len(told.notices) == 6)
    turns = {notice.turn_id: notice for notice in told.notices if notice.kind == "turn"}
    shown = [(n.turn_id, n.reason, n.text, n.code) for n in sorted(turns.values(), key=lambda n: n.turn_id)]
    assert shown == [
        ("t1", "answered", "hello", ""),
        ("t2", "failed", "", "TypeError"),
        ("t3", "failed", "", "interrupted"),
        ("t4", "answered", "never mind", ""),
    ]
    assert [turns[f"t{n}"].message_ids for n in (1, 2, 4)] == [["m-1"], ["m-2"], ["m-4"]]
    (end,) = (notice for notice in told.notices if notice.kind == "end")
    assert (end.reason, end.text) == ("closed", "enough")
    await traces(session.run).check()


async def test_a_run_that_fails_at_its_first_plan_tells_so(serve, app, told, until):
    client = await serve(app)
    run = await client.start("test.agent", "break")
    with pytest.raises(RunFailed):
        await run.result()
    await until(lambda: told.notices)
    (end,) = told.notices
    assert (end.kind, end.reason, end.code) == ("end", "failed", "TypeError")
    assert "no such thing" in end.error


async def test_a_canceled_run_tells_so(serve, app, told, until):
    client = await serve(app)
    run = await client.start("test.agent", "ask")
    await run.until_waiting()
    await run.cancel()
    await until(lambda: len(told.notices) == 2)
    assert {(notice.kind, notice.reason) for notice in told.notices} == {("wait", ""), ("end", "canceled")}


async def test_a_notice_is_delivered_again_until_it_is_taken(serve, app, told, until, traces):
    """With the same id each time, and without holding up the run."""
    client = await serve(app)
    told.fails = 2
    run = await client.start("test.agent", "hello")
    assert (await run.result()).text == "hello"
    await until(lambda: told.notices)
    assert told.attempts == [f"{run.id}/end"] * 3
    await traces(run).check()


async def test_a_receiver_that_does_not_answer_holds_up_nothing(serve, app, told, until):
    client = await serve(app)
    told.silent.clear()
    session = client.session("test.agent", "silent")
    for text in ("one", "two"):
        assert (await (await session.send(text)).result()).text == text
    await session.close()
    await session.run.result()
    assert told.notices == []
    told.silent.set()
    await until(lambda: len(told.notices) == 3)


async def test_a_notice_outlives_the_worker(temporal_address, app, told, until):
    """The run has ended and its worker has stopped: the next worker delivers."""
    queue = f"q-{uuid.uuid4().hex[:8]}"
    client = await Client.connect(temporal_address, task_queue=queue)
    told.fails = 1
    async with Worker(app, client):
        run = await client.start("test.agent", "hello")
        await run.result()
        await until(lambda: told.attempts)
    assert told.notices == []
    async with Worker(app, client):
        await until(lambda: told.notices)
    assert told.notices[0].id == f"{run.id}/end"


async def test_a_child_run_tells_what_it_waits_for_and_not_that_it_ends(serve, told, until, traces):
    agent = Agent("test.asker", planner=plan, policy=RunPolicy(interrupts_allowed=True))
    asked = agent.export("test.asked", tools=[AgentTool("go", args=dict[str, str], user="ask")])

    async def delegate(turn) -> PlanResult:
        if turn.tool_results:
            return PlanResult.final(str(turn.tool_results[0].result))
        return PlanResult.calls(asked.tools["go"].call())

    above = Agent("test.above", planner=delegate, uses=[asked], policy=RunPolicy(interrupts_allowed=True))
    client = await serve(App(agents=[agent, above], on_wait=told, on_end=told))
    run = await client.start("test.above", "go")
    await until(lambda: told.notices)
    (wait,) = told.notices
    assert (wait.parent_run_id, wait.agent_id, wait.text) == (run.id, "test.asker", "which?")
    await client.get_run(wait.run_id).answer("this")
    await run.result()
    await until(lambda: len(told.notices) == 2)
    assert told.notices[1].id == f"{run.id}/end"
    await traces(run).check()


async def test_an_app_without_functions_starts_nothing(serve, traces):
    client = await serve(planner=plan, policy=RunPolicy(interrupts_allowed=True))
    run = await client.start("test.agent", "ask")
    await run.until_waiting()
    await run.answer("yes")
    await run.result()
    children = [
        event
        async for event in client.temporal.get_workflow_handle(run.id).fetch_history_events()
        if event.HasField("start_child_workflow_execution_initiated_event_attributes")
    ]
    assert children == []


@pytest.mark.parametrize("values", [[], ["x"], [{"id": "n"}], [None, None], [{"kind": "wait", "id": 3}]])
async def test_a_delivery_that_somebody_starts_with_anything_fails(serve, app, values):
    client = await serve(app)
    handle = await client.temporal.start_workflow(
        "NoticeDelivery", args=values, id=f"n-{uuid.uuid4().hex}", task_queue=client.task_queue
    )
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert failed.value.cause.type == "InvalidInput"

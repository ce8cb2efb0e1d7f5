"""A conversation that goes on from an earlier message: what its planners read, and what is left of the other branch."""

import asyncio
import uuid

import pytest
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from sojourn import (
    Agent,
    App,
    AwaitClosed,
    InvalidInput,
    PlanResult,
    RunFailed,
    RunPolicy,
    ToolCallMeta,
    Toolset,
    data_converter,
)
from sojourn.events.one_run import fetch_histories, transcript_of
from workflows.agent_run import AgentRun

tools = Toolset("branch.tools")
paid: list[str] = []
sent: list[str] = []
release = asyncio.Event()


@tools.tool
async def pay(order: str, meta: ToolCallMeta) -> str:
    """Pay."""
    paid.append(meta.idempotency_key)
    return f"paid {order}"


@tools.tool(idempotent=False)
async def send(order: str) -> str:
    """Send, and nothing sends it once more."""
    sent.append(order)
    return f"sent {order}"


@tools.tool(destructive=True)
async def wipe(disk: str) -> str:
    """Destroy."""
    return f"wiped {disk}"


@tools.tool
async def slow() -> str:
    """Take until the test lets go."""
    await release.wait()
    return "slow"


async def plan(turn) -> PlanResult:
    """Do what the last message says, or say what the users said."""
    present = turn.messages[turn.turn_start :]
    word, _, rest = present[0].text.partition(" ")
    if not turn.tool_results:
        if word == "pay":
            return PlanResult.calls(pay.call(order=rest))
        if word == "send":
            return PlanResult.calls(send.call(order=rest))
        if word == "wipe":
            return PlanResult.calls(wipe.call(disk=rest))
        if word == "slow":
            return PlanResult.calls(slow.call())
    if word == "remember":
        return PlanResult.final("remembered", memory={"said": rest})
    said = " / ".join(message.text for message in turn.messages if message.role == "user")
    return PlanResult.final(f"{said} {dict(turn.memory) or ''}".strip())


@pytest.fixture
async def client(serve):
    paid.clear()
    sent.clear()
    release.clear()
    policy = RunPolicy(interrupts_allowed=True)
    return await serve(App(agents=[Agent("test.agent", planner=plan, uses=[tools], policy=policy)]))


async def said(session, text: str, message_id: str) -> str:
    return (await (await session.send(text, message_id=message_id)).result()).text


async def edited(session, message_id: str, text: str | None = None) -> str:
    return (await (await session.edit(message_id, text)).result()).text


async def replayed(client, run_id: str) -> int:
    """Replay all executions of a conversation, and return their number."""
    replayer = Replayer(
        workflows=[AgentRun], workflow_runner=UnsandboxedWorkflowRunner(), data_converter=data_converter
    )
    histories = await fetch_histories(client.temporal, run_id)
    for history in histories:
        await replayer.replay_workflow(history)
    return len(histories)


async def test_an_edited_message_is_answered_without_what_came_after_it(client):
    """Planners, transcript and memory are those of the point before it; the run keeps its id, and the turns of both branches."""
    session = client.session("test.agent", uuid.uuid4().hex)
    await said(session, "one", "m-1")
    await said(session, "remember two", "m-2")
    assert await said(session, "three", "m-3") == "one / remember two / three {'said': 'two'}"
    assert await edited(session, "m-2", "TWO") == "one / TWO"
    assert [message.text for message in await session.transcript()] == ["one", "one", "TWO", "one / TWO"]
    assert await session.memory() == {}
    assert await said(session, "four", "m-4") == "one / TWO / four"
    timeline = await session.timeline()
    assert [turn.messages[0].message.text for turn in timeline.path] == ["one", "TWO", "four"]
    assert [turn.messages[0].message.text for turn in timeline.siblings(timeline.path[1])] == [
        "remember two",
        "TWO",
    ]
    assert len(timeline.turns) == 5
    assert await replayed(client, session.run.id) == 2
    assert (await transcript_of(client.temporal, session.run.id, None)) == await session.transcript()


async def test_the_first_message_can_be_edited_again_and_again(client):
    """Each edit begins at the start of the conversation; the same words are answered anew."""
    session = client.session("test.agent", uuid.uuid4().hex)
    await said(session, "one", "m-1")
    assert await edited(session, "m-1", "two") == "two"
    assert await edited(session, "m-1") == "two"
    timeline = await session.timeline()
    assert [len(timeline.path), len(timeline.siblings(timeline.path[0])), timeline.branches] == [1, 3, 2]


async def test_a_conversation_goes_on_in_the_branch_that_it_is_switched_to(client):
    """The next message comes after the end of that branch, which then is the present one."""
    session = client.session("test.agent", uuid.uuid4().hex)
    await said(session, "one", "m-1")
    await said(session, "two", "m-2")
    await edited(session, "m-2", "TWO")
    timeline = await session.timeline()
    first, second = timeline.siblings(timeline.path[1])
    await session.switch(timeline.tip(first))
    assert await said(session, "three", "m-3") == "one / two / three"
    timeline = await session.timeline()
    assert [turn.messages[0].message.text for turn in timeline.path] == ["one", "two", "three"]
    await session.switch(timeline.tip(second))
    assert await said(session, "four", "m-4") == "one / TWO / four"
    with pytest.raises(InvalidInput, match="no turn"):
        await session.switch("0-000001-00000")


async def test_a_branch_that_is_left_ends_its_turn_and_its_waits(client):
    """The turn is interrupted, its approval closed, and the message that waited is withdrawn."""
    session = client.session("test.agent", uuid.uuid4().hex)
    await said(session, "one", "m-1")
    left = await session.send("wipe a", message_id="m-2")
    async for event in left.events():
        if event.type == "await_confirmation":
            break
    waiting = await session.send("three", message_id="m-3")
    turn = await session.edit("m-2", "two")
    with pytest.raises(RunFailed, match="earlier message"):
        await left.result()
    with pytest.raises(RunFailed, match="withdrawn"):
        await waiting.result()
    assert (await turn.result()).text == "one / two"
    assert (await session.status()).awaits == []
    with pytest.raises(AwaitClosed):
        await session.run.approve(event.confirmation)


async def test_an_edit_stops_the_calls_of_the_turn(client):
    """A call under way is cancelled, and the new branch begins without it."""
    session = client.session("test.agent", uuid.uuid4().hex)
    left = await session.send("slow", message_id="m-1")
    async for event in left.events():
        if event.type == "tool_start":
            break
    assert await edited(session, "m-1", "two") == "two"
    (call,) = (await session.timeline()).calls or [None]
    assert (call.state, call.turn.failure.error.code) == ("canceled", "interrupted")


async def test_an_effect_of_the_branch_that_is_left_is_known(client):
    """The same call in the new branch has the key of the first one, and a call that must not be repeated asks a person."""
    session = client.session("test.agent", uuid.uuid4().hex)
    await said(session, "pay 7", "m-1")
    await edited(session, "m-1", "pay 7, please")
    await edited(session, "m-1", "pay 7")
    first, other, again = paid
    assert (first == again, first == other) == (True, False)
    await said(session, "send 7", "m-2")
    turn = await session.edit("m-2")
    async for event in turn.events():
        if event.type == "await_confirmation":
            break
    assert (event.confirmation.payload, "carried out" in str(event.confirmation)) == ({"order": "7"}, True)
    await session.run.deny(event.confirmation)
    await turn.result()
    assert sent == ["7"]


async def test_messages_that_cannot_be_edited_are_refused(client):
    """Only a message that has opened a turn of the present branch can be edited, and only once from one view."""
    session = client.session("test.agent", uuid.uuid4().hex)
    await said(session, "one", "m-1")
    await said(session, "two", "m-2")
    with pytest.raises(InvalidInput, match="m-9"):
        await session.edit("m-9", "nine")
    timeline = await session.timeline()
    await edited(session, "m-1", "ONE")
    with pytest.raises(InvalidInput, match="m-2"):
        await session.edit("m-2", "TWO")
    with pytest.raises(AwaitClosed, match="meanwhile"):
        await session.run.branch(timeline.path[0].follows, timeline.branches, {"text": "late"})

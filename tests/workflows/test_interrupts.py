"""A message that interrupts the present turn of a conversation, whatever the turn does."""

import asyncio
import contextlib
import itertools
from collections.abc import Sequence
from datetime import timedelta

import pytest
from pydantic import BaseModel
from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec

from sojourn import (
    Agent,
    AgentTool,
    App,
    AwaitClarification,
    AwaitClosed,
    InvalidInput,
    Message,
    PlanResult,
    RunFailed,
    RunPolicy,
    ToolRequest,
    Toolset,
)
from sojourn.contracts.message import ImagePart, TextPart
from sojourn.errors import RunCanceled
from sojourn.events.one_run import status_in_history
from tests.chain import replay

tools = Toolset("stop.tools")
outside = Toolset("stop.outside", external=True)
release = asyncio.Event()


class Number(BaseModel):
    n: int


outside.declare("pick", args=Number, result=int)


def pick(n: int) -> ToolRequest:
    return ToolRequest(name="stop.outside.pick", payload={"n": n})


@tools.tool
async def look(n: int) -> int:
    """Look."""
    return n


@tools.tool
async def slow(n: int) -> int:
    """Take until the test lets go."""
    await release.wait()
    return n


@tools.tool
async def forever(n: int) -> int:
    """Take for ever."""
    await asyncio.Event().wait()
    return n


@tools.tool
async def stubborn(n: int) -> int:
    """Go on, whoever cancels it."""
    while not release.is_set():
        with contextlib.suppress(asyncio.CancelledError):
            await release.wait()
    return n


@tools.tool(local=True, read_only=True)
async def near(n: int) -> int:
    """Take until the test lets go, as a local activity."""
    await release.wait()
    return n


@tools.tool(destructive=True)
async def wipe(n: int) -> int:
    """Destroy."""
    return n


async def below(turn) -> PlanResult:
    return PlanResult.calls(slow.call(n=1))


async def plan(turn) -> PlanResult:
    last, said = turn.messages[-1], [m.text for m in turn.messages if m.role == "user"]
    if last.role == "tool":
        return PlanResult.final(f"done: {last.tool_results[-1].result}")
    match said[-1]:
        case "slow":
            return PlanResult.calls(slow.call(n=1))
        case "stubborn":
            return PlanResult.calls(stubborn.call(n=1))
        case "near":
            return PlanResult.calls(near.call(n=1))
        case "wipe":
            return PlanResult.calls(wipe.call(n=1))
        case "many":
            calls = [look.call(n=1), slow.call(n=2), wipe.call(n=3), pick(n=4), slow.call(n=5)]
            return PlanResult.calls(*calls)
        case "outside":
            return PlanResult.calls(pick(n=4))
        case "child":
            return PlanResult.calls(ToolRequest(name="stop.below.child", payload={"n": 1}))
        case "ask":
            return PlanResult.ask(AwaitClarification(id="q", question="which?"))
        case "sleep":
            return PlanResult.wait(timedelta(days=1))
        case "think":
            await release.wait()
    new = list(itertools.takewhile(lambda m: m.role in ("system", "user"), reversed(turn.messages)))
    return PlanResult.final(" | ".join(message.text for message in reversed(new)))


POLICY = RunPolicy(interrupts_allowed=True, max_parallel_calls=3)
lower = Agent("stop.lower", planner=below, uses=(tools,), policy=POLICY)
asked = lower.export("stop.below", tools=[AgentTool("child", args=Number)])

AT = {
    "slow": "tool_start",
    "stubborn": "tool_start",
    "near": "tool_start",
    "wipe": "await_confirmation",
    "many": "tool_end",
    "outside": "await_external_tools",
    "child": "agent_run_started",
    "ask": "await_clarification",
    "sleep": "plan_started",
    "think": "plan_started",
}
"""For each thing that a turn does: the event with which it begins to."""


@pytest.fixture
async def client(serve):
    release.clear()
    agent = Agent("test.agent", planner=plan, uses=[tools, outside, asked], policy=POLICY)
    return await serve(App(agents=[agent, lower]))


async def held(session, word: str):
    """A turn at the moment where it does what the word says."""
    turn = await session.send(word)
    async for event in turn.events():
        if event.type == AT[word]:
            break
    while word == "sleep" and (await session.status()).phase != "waiting":
        await asyncio.sleep(0.02)
    return turn


async def check(session, traces) -> list[Message]:
    """Assert that each call was begun and ended once in the events, that each answers once, and that the run replays; the transcript."""
    events = [event async for event in session.events(follow=False)]
    started = [event.tool_call_id for event in events if event.type == "tool_start"]
    ended = [event.tool_call_id for event in events if event.type == "tool_end"]
    assert sorted(started) == sorted(ended)
    assert len(set(ended)) == len(ended)
    await replay(session.run.client.temporal, session.run.id)
    live = await session.run._query_status()
    folded = await status_in_history(session.run.client.temporal, session.run.id)
    one, other = (s.model_copy(update={"started_at": None}).model_dump() for s in (live, folded))
    for each in (one, other):
        each["caps"].pop("time")  # between plans, the run's clock is that of its workflow tasks
    assert {k: (v, other[k]) for k, v in one.items() if v != other[k]} == {}
    return await traces(session.run).check()


@pytest.mark.parametrize("word", AT)
async def test_the_next_turn_begins_with_the_message(client, traces, word):
    """Whatever the turn does; its calls are answered as cancelled, its questions are closed, and it fails as interrupted."""
    session = client.session("test.agent", f"next-{word}")
    turn = await held(session, word)
    later = await session.send("later")
    interrupting = await session.send("instead", mode="interrupt", by="ana")
    if word == "stubborn":
        release.set()
    output = await interrupting.result()
    with pytest.raises(RunFailed, match="the turn was interrupted") as failed:
        await turn.result()
    assert failed.value.code == "interrupted"
    told, doubt = output.text, "; a call may have taken effect, its outcome is unknown"
    if word in ("slow", "many", "outside"):
        assert doubt in told
    if word in ("slow", "many", "outside", "child"):  # a child run says itself whether it had begun to act
        told = told.replace(doubt, "")
    assert told.endswith("The last turn failed: the turn was interrupted | instead")
    assert (await later.result()).text == "later"
    status = await session.status()
    assert (status.status, status.awaits, status.turns, status.queued) == ("idle", [], 3, 0)
    messages = await check(session, traces)
    results = [result for message in messages for result in message.tool_results]
    if word in ("slow", "near", "wipe", "outside", "child"):
        assert [result.error.code for result in results] == ["canceled"]
        assert "the turn was interrupted" in results[0].error.message
    elif word == "many":
        assert [result.ok or result.error.code for result in results] == [True, *["canceled"] * 4]
    elif word == "stubborn":
        assert [result.result for result in results] == [1]


@pytest.mark.parametrize("word", AT)
async def test_a_turn_is_stopped_without_a_message(client, traces, word):
    """The conversation is idle afterwards; to stop it then changes nothing."""
    session = client.session("test.agent", f"stop-{word}")
    turn = await held(session, word)
    assert await session.interrupt("wrong site", by="ana")
    if word == "stubborn":
        release.set()
    with pytest.raises(RunFailed, match="the turn was interrupted: wrong site"):
        await turn.result()
    assert not await session.interrupt()
    assert (await session.status()).status == "idle"
    again = await session.send("again")
    assert (await again.result()).text.endswith("again")
    await check(session, traces)


async def test_messages_that_interrupt_open_one_turn(client, traces):
    """All that were accepted until it begins, before those that wait longer."""
    session = client.session("test.agent", "two")
    turn = await held(session, "stubborn")
    later = await session.send("later")
    both = [await session.send(word, mode="interrupt") for word in ("one", "two")]
    release.set()
    outputs = [(await each.result()).text for each in both]
    assert outputs[0] == outputs[1]
    assert outputs[0].endswith("one | two")
    assert both[0].turn_id == both[1].turn_id
    assert (await later.result()).text == "later"
    with pytest.raises(RunFailed):
        await turn.result()
    await check(session, traces)


async def test_a_steer_of_an_interrupted_turn_opens_the_next(client, traces):
    """What steers is delivered, even where no plan of its turn followed."""
    session = client.session("test.agent", "steered")
    await held(session, "slow")
    steer = await session.send("this too", mode="steer")
    await session.interrupt()
    assert (await steer.result()).text.endswith("this too")
    await check(session, traces)


async def test_an_idle_conversation_is_interrupted_by_nothing(client, traces):
    """The message then opens a turn as any other."""
    session = client.session("test.agent", "idle")
    for _ in range(2):
        assert (await (await session.send("hello", mode="interrupt")).result()).text == "hello"
    await check(session, traces)


async def test_a_paused_conversation_is_interrupted(client, traces):
    """The turn ends at once; the next one begins when the run is resumed."""
    session = client.session("test.agent", "paused")
    turn = await held(session, "wipe")
    await session.run.pause()
    interrupting = await session.send("instead", mode="interrupt")
    with pytest.raises(RunFailed):
        await turn.result()
    assert (await session.status()).queued == 1
    await session.run.resume()
    assert (await interrupting.result()).text.endswith("instead")
    await check(session, traces)


async def test_a_cancel_while_a_turn_is_interrupted_ends_the_run(client, traces):
    session = client.session("test.agent", "both")
    await held(session, "stubborn")
    await session.interrupt()
    await session.run.cancel()
    release.set()
    with pytest.raises(RunCanceled):
        await session.run.result()
    assert await traces(session.run).failed_tasks() == []


async def test_a_turn_is_completed_or_interrupted(client, traces):
    """Whichever comes first: a turn that completes has its answer in the transcript, any other has none there."""
    session = client.session("test.agent", "late")
    turn = await session.send("hello")
    interrupting = await session.send("instead", mode="interrupt")
    assert (await interrupting.result()).text.endswith("instead")
    said: list[str] = []
    with contextlib.suppress(RunFailed):
        said.append((await turn.result()).text)
    messages = await check(session, traces)
    assert [m.text for m in messages if m.role == "assistant"][:-1] == said


async def test_the_time_budget_counts_for_the_turn_after_one_that_used_it_up(serve):
    """Also where that turn was interrupted in its last plan, so that no answer ended it."""
    release.clear()

    async def overdue(turn) -> PlanResult:
        if turn.finalize and not release.is_set():
            await asyncio.Event().wait()
        return (
            PlanResult.final("in time")
            if turn.finalize
            else PlanResult.calls(look.call(n=1), forever.call(n=1))
        )

    policy = RunPolicy(time_budget=timedelta(seconds=0.3), interrupts_allowed=True)
    client = await serve(planner=overdue, uses=(tools,), policy=policy)
    session = client.session("test.agent", "overdue")
    turn = await session.send("first")
    async for event in turn.events():
        if event.type == "limit_reached":
            break
    await session.interrupt()
    with pytest.raises(RunFailed):
        await turn.result()
    release.set()
    output = await (await session.send("second")).result()
    assert (output.text, output.reason) == ("in time", "time_budget")


async def test_the_next_turn_begins_without_results(serve, traces):
    """A planner that looks at the results of the last step plans the message; what became of the call is in the transcript."""
    seen: list[tuple[int, int, str]] = []

    async def usual(turn) -> PlanResult:
        seen.append((len(turn.tool_results), len(turn.hints), turn.messages[-1].text))
        if turn.messages[-1].text == "slow":
            return PlanResult.calls(forever.call(n=1))
        return PlanResult.final(f"{len(turn.tool_results)} results")

    client = await serve(planner=usual, uses=(tools,), policy=RunPolicy(interrupts_allowed=True))
    session = client.session("test.agent", "begins-anew")
    await held(session, "slow")
    output = await (await session.send("other", mode="interrupt")).result()
    assert output.text == "0 results"
    assert seen == [(0, 0, "slow"), (0, 0, "other")]
    said = await session.transcript()
    assert [each.role for each in said] == ["user", "assistant", "tool", "system", "user", "assistant"]


async def test_a_closed_conversation_can_be_interrupted(client, traces):
    """The turn ends, and the conversation with it."""
    session = client.session("test.agent", "interrupted-closing")
    await held(session, "slow")
    await session.close("done")
    with pytest.raises(AwaitClosed):
        await session.send("instead", mode="interrupt")
    assert await session.interrupt()
    assert (await session.run.result()).reason == "closed"


async def test_by_signal(client, traces):
    """As Temporal's CLI and UI send it: with an object, a text or nothing; a bad one becomes a note."""
    session = client.session("test.agent", "signalled")
    for argument in ({"reason": "stop", "by": "ana"}, "stop", None):
        turn = await held(session, "slow")
        await traces(session.run).handle.signal("interrupt", args=[] if argument is None else [argument])
        with pytest.raises(RunFailed, match="interrupted"):
            await turn.result()
    await traces(session.run).handle.signal("interrupt", {"reason": 3})
    await (await session.send("hello")).result()
    events = [event async for event in session.events(follow=False)]
    notes = [(event.text, event.by) for event in events if event.type == "planner_note"]
    assert notes == [
        ("interrupted: stop", "ana"),
        ("interrupted: stop", None),
        ("interrupted", None),
        ("interrupt refused: `reason` is a text of at most 2,000 characters", None),
    ]
    await check(session, traces)


async def test_a_run_that_is_no_conversation_is_not_interrupted(client):
    run = await client.start("test.agent", "ask")
    await run.until_waiting()
    with pytest.raises(InvalidInput, match="no conversation"):
        await run.interrupt()
    await run.answer("x")


async def test_messages_with_images(client, traces):
    """A planner gets the parts in order; a message of another role is refused."""
    session = client.session("test.agent", "images")
    picture = ImagePart(type="image", media_type="image/png", data="iVBORw0KGgo=")
    message = Message(role="user", parts=[TextPart(type="text", text="what is this?"), picture])
    assert (await (await session.send(message)).result()).text == "what is this?"
    turn = await session.send(Message(role="user", parts=[picture]))
    await turn.result()
    await session.run.send({"text": "and this?", "parts": [picture.model_dump(exclude_none=True)]})
    async for event in session.events():
        if event.type == "turn_completed" and event.output.text == "and this?":
            break
    said = [message for message in await check(session, traces) if message.role == "user"]
    assert said == [
        message,
        Message(role="user", parts=[picture]),
        Message(role="user", parts=[TextPart(type="text", text="and this?"), picture]),
    ]
    with pytest.raises(InvalidInput, match="has the role user"):
        await session.send(Message.system("obey"))


class Holding(PayloadCodec):
    """Changes nothing, but holds back a workflow task that brings a text."""

    def __init__(self, text: bytes) -> None:
        self.text, self.holds, self.release = text, asyncio.Event(), asyncio.Event()

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return list(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        if any(self.text in payload.data for payload in payloads):
            self.holds.set()
            await self.release.wait()
        return list(payloads)


BUDGETS = pytest.mark.parametrize("budget", [None, timedelta(minutes=1)], ids=["no budget", "a budget"])
"""Where a time budget is watched, from the second turn on, a plan is awaited in a task of its own."""


@BUDGETS
async def test_an_answer_stays_that_comes_in_spite_of_an_interruption(serve, traces, budget):
    """The turn completes, with what the plan changes in the memory."""

    async def hasty(turn) -> PlanResult:
        said = turn.messages[-1].text
        await client.temporal.get_workflow_handle(f"test.agent@hasty-{budget}").signal("interrupt")
        return PlanResult.final(f"to {said}", memory={said: True})

    client = await serve(planner=hasty, policy=RunPolicy(time_budget=budget))
    session = client.session("test.agent", f"hasty-{budget}")
    for said in ("one", "two"):
        assert (await (await session.send(said)).result()).text == f"to {said}"
    assert dict(await session.run.memory()) == {"one": True, "two": True}
    assert (await session.status()).turns == 2
    await check(session, traces)


@BUDGETS
@pytest.mark.parametrize("by", ["signal", "message"])
async def test_an_answer_stays_that_comes_together_with_an_interruption(serve, traces, budget, by):
    """The turn completes, where one workflow task brings both to the run; a message that interrupts opens the next one."""
    codec, planned = Holding(b"hold this task"), asyncio.Event()

    async def answers(turn) -> PlanResult:
        if turn.messages[-1].text == "hello":
            await planned.wait()
        return PlanResult.final(f"to {turn.messages[-1].text}", memory={turn.messages[-1].text: True})

    client = await serve(planner=answers, policy=RunPolicy(time_budget=budget), codec=codec)
    session = client.session("test.agent", f"together-{by}-{budget}")
    await (await session.send("first")).result()
    turn = await session.send("hello")
    handle = traces(session.run).handle
    await handle.signal("resume", "hold this task")
    await codec.holds.wait()
    if by == "signal":
        await handle.signal("interrupt")
    else:
        await handle.signal("send", {"text": "instead", "message_id": "m", "mode": "interrupt"})
    planned.set()
    while (await handle.describe()).raw_description.pending_activities:
        await asyncio.sleep(0.02)
    codec.release.set()
    assert (await turn.result()).text == "to hello"
    turns = 2 if by == "signal" else 3
    while (status := await session.status()).status != "idle" or status.queued:
        await asyncio.sleep(0.02)
    assert status.turns == turns
    ends = [event.type async for event in session.events(follow=False) if event.type.startswith("turn_")]
    assert ends == ["turn_started", "turn_completed"] * turns
    await check(session, traces)


@BUDGETS
async def test_a_cancel_of_the_run_wins_over_an_answer(serve, traces, budget):
    """Also where the turn is interrupted first: the run ends as canceled, whatever its planner says."""

    async def hasty(turn) -> PlanResult:
        if turn.messages[-1].text == "hello":
            handle = client.temporal.get_workflow_handle(f"test.agent@canceled-{budget}")
            await handle.signal("interrupt")
            await handle.cancel()
        return PlanResult.final("said")

    client = await serve(planner=hasty, policy=RunPolicy(time_budget=budget))
    session = client.session("test.agent", f"canceled-{budget}")
    await (await session.send("first")).result()
    await session.send("hello")
    with pytest.raises(RunCanceled):
        await session.run.result()
    assert await traces(session.run).failed_tasks() == []


async def test_a_turn_that_is_not_meant_is_not_stopped(client, traces):
    """A turn is stopped by any id that it has had, by an update or a signal; once another one follows, that one goes on."""
    session = client.session("test.agent", "meant")
    turn = await held(session, "ask")
    wait = (await session.run.status()).awaits[0]
    first = (await session.status()).turn_id
    with pytest.raises(AwaitClosed, match=f'the present turn is {first}, and not "t9"'):
        await session.interrupt(turn_id="t9")
    handle = client.temporal.get_workflow_handle(session.run.id)
    await handle.signal("interrupt", {"turn_id": "t9"})
    with pytest.raises(InvalidInput, match="`turn_id` is a text"):
        await session.interrupt(turn_id="t" * 201)
    assert (await session.run.status()).awaits == [wait]
    assert await session.interrupt(turn_id=first)
    with pytest.raises(RunFailed, match="the turn was interrupted"):
        await turn.result()
    assert not await session.interrupt(turn_id=first)
    assert turn.turn_id == first
    again = await held(session, "slow")
    for closed in (first, "t9"):
        with pytest.raises(AwaitClosed, match="the present turn is"):
            await session.interrupt(turn_id=closed)
        await handle.signal("interrupt", {"turn_id": closed})
    present = (await session.status()).turn_id
    await handle.signal("interrupt", {"turn_id": present})
    with pytest.raises(RunFailed, match="the turn was interrupted"):
        await again.result()
    await check(session, traces)


async def test_a_turn_is_stopped_by_the_id_that_it_began_with(client, traces):
    """The answer to a question begins a further id, and not another turn."""
    session = client.session("test.agent", "answered")
    turn = await held(session, "ask")
    first = (await session.status()).turn_id
    await session.run.answer("q", "slow")
    while (await session.status()).phase != "executing_tools":
        await asyncio.sleep(0.02)
    assert (await session.status()).turn_id != first
    assert await session.interrupt(turn_id=first)
    with pytest.raises(RunFailed, match="the turn was interrupted"):
        await turn.result()
    await check(session, traces)

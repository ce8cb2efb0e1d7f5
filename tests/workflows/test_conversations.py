"""A conversation: a run that does not end at its answer."""

import asyncio
import re

import pytest

from sojourn import (
    AwaitClarification,
    AwaitClosed,
    InvalidInput,
    PlanResult,
    RunFailed,
    RunPolicy,
    ToolRequest,
    Toolset,
    Turn,
)
from sojourn.client import SessionTurn
from sojourn.errors import RunCanceled, SessionBusy
from sojourn.events.one_run import status_in_history

tools = Toolset("talk.tools")
release = asyncio.Event()


@tools.tool
async def look(n: int) -> int:
    """Look."""
    return n


@tools.tool
async def slow(n: int) -> int:
    """Take until the test lets go."""
    await release.wait()
    return n


async def plan(turn) -> PlanResult:
    said = [message.text for message in turn.messages if message.role == "user"]
    last = turn.messages[-1]
    if last.role == "tool":
        return PlanResult.final(f"{said[-1]}: {last.tool_results[0].result}")
    word = said[-1]
    if word == "break":
        raise TypeError("no such thing")
    if word == "ask":
        return PlanResult.ask(AwaitClarification(id="q", question="which?"))
    if word.startswith("look"):
        return PlanResult.calls(look.call(n=len(said)))
    if word == "slow":
        return PlanResult.calls(slow.call(n=1))
    system = [message.text for message in turn.messages if message.role == "system"]
    return PlanResult.final(f"{len(said)}: {word}{' after ' + system[-1] if system else ''}")


POLICY = RunPolicy(max_tool_calls=1, interrupts_allowed=True)


@pytest.fixture
async def client(serve):
    release.clear()
    return await serve(planner=plan, uses=(tools,), policy=POLICY)


async def slow_turn(session):
    """A turn whose call is in flight until `release` is set."""
    turn = await session.send("slow")
    async for event in turn.events():
        if event.type == "tool_start":
            break
    return turn


async def test_each_message_opens_a_turn(client, traces):
    """The planner remembers the turns before; the limits count for each turn."""
    session = client.session("test.agent", "desk-1")
    first = await session.send("hello", by="ana")
    assert (await first.result()).text == "1: hello"
    assert first.turn_id == "t1"
    for n in (2, 3):
        turn = await session.send("look")
        output = await turn.result()
        assert (output.text, output.tool_calls, turn.turn_id) == (f"look: {n}", 1, f"t{n}")
    status = await session.status()
    assert (status.status, status.turns, status.queued, status.session_id) == ("idle", 3, 0, "desk-1")
    transcript = await traces(session.run).check()
    assert [message.role for message in transcript] == [
        "user",
        "assistant",
        *["user", "assistant", "tool", "assistant"] * 2,
    ]
    await session.close("done", by="ana")
    output = await session.run.result()
    assert (output.reason, output.tool_calls) == ("closed", 2)
    kinds = [event.type async for event in session.events()]
    assert kinds.count("turn_completed") == 3
    assert kinds[:3] == ["run_started", "message_received", "turn_started"]


async def test_a_message_sent_again_gives_the_same_turn(client):
    session = client.session("test.agent", "again")
    texts = [(await (await session.send("hello", message_id="m-1")).result()).text for _ in range(3)]
    assert texts == ["1: hello"] * 3
    assert (await session.status()).turns == 1


async def test_messages_wait_for_their_turn_in_order(client):
    session = client.session("test.agent", "order")
    turns = [await slow_turn(session), *[await session.send(f"m{n}") for n in range(5)]]
    assert (await session.status()).queued == 5
    release.set()
    assert [(await turn.result()).text for turn in turns] == [
        "slow: 1",
        *[f"{n + 2}: m{n}" for n in range(5)],
    ]


async def test_a_steer_joins_the_present_turn(client):
    session = client.session("test.agent", "steer")
    held = await slow_turn(session)
    steer = await session.send("hurry", mode="steer")
    release.set()
    assert (await steer.result()).text == (await held.result()).text
    assert steer.turn_id == held.turn_id == "t1"
    after = await session.send("late", mode="steer")
    assert (await after.result()).text == "3: late"


async def test_a_turn_that_fails_ends_only_itself(client):
    session = client.session("test.agent", "fails")
    failing = await session.send("break")
    with pytest.raises(RunFailed, match="no such thing"):
        await failing.result()
    assert (await (await session.send("go on")).result()).text.startswith(
        "2: go on after The last turn failed: "
    )
    assert (await session.status()).status == "idle"


async def test_a_question_stays_open_while_messages_come(client):
    session = client.session("test.agent", "asks")
    asking = await session.send("ask")
    await session.run.until_waiting()
    later = await session.send("later")
    await session.run.answer("this one")
    assert (await asking.result()).text == "2: this one"
    assert (await later.result()).text == "3: later"


BAD = [
    ({}, "`text` is a text that is not empty"),
    ({"text": " "}, "`text` is a text that is not empty"),
    ({"text": 3}, "`text` is a text"),
    ({"text": "\ud800"}, "`text` is a text"),
    ({"text": "x" * 256_001}, "at most 256,000"),
    ({"text": "x", "parts": {}}, "`parts` is an array"),
    ({"parts": [{"type": "image"}]}, "`parts` has objects such as"),
    (
        {"parts": [{"type": "tool_call", "tool_call_id": "c", "name": "n"}]},
        "texts, images and documents only",
    ),
    ({"parts": [{"type": "image", "media_type": "image/png", "data": "A" * 256_000}]}, "at most 256,000"),
    ({"text": "x", "mode": "shout"}, "`mode` is one of queue, steer, interrupt"),
    ({"text": "x", "message_id": "i" * 201}, "`message_id` is a text of at most 200 characters"),
    ({"text": "x", "message_id": 3}, "`message_id` is a text of at most 200 characters"),
    ({"text": "x", "txt": "y"}, 'there is no field "txt"'),
    ({"text": "x", "by": 3}, "`by` is a name"),
    ([], "`text` is a text"),
    (None, "`text` is a text that is not empty"),
]


async def test_a_bad_message_is_refused_and_harms_nothing(client, traces):
    """By update with the reason, by signal with a note."""
    session = client.session("test.agent", "bad")
    await (await session.send("hello")).result()
    for sent, why in BAD:
        if isinstance(sent, dict):
            with pytest.raises(InvalidInput, match=re.escape(why)):
                await session.run.send(sent)
        if sent != {"text": "\ud800"}:  # which no client can write
            await traces(session.run).handle.signal("send", sent)
    await traces(session.run).handle.signal("send", args=["a", "b"])
    await traces(session.run).handle.signal("close", {"reason": 3})
    turn = await session.send("still here")
    assert (await turn.result()).text == "2: still here"
    await traces(session.run).check()
    notes = [event.text async for event in session.events(follow=False) if event.type == "planner_note"]
    assert sum("send refused" in note for note in notes) == len(
        BAD
    )  # all but one, and the one with two values
    assert sum("close refused" in note for note in notes) == 1


async def test_a_run_that_is_no_conversation_refuses_messages(client):
    run = await client.start("test.agent", "ask")
    await run.until_waiting()
    with pytest.raises(InvalidInput, match="no conversation"):
        await run.send({"text": "hello"})
    with pytest.raises(InvalidInput, match="no conversation"):
        await run.close()
    await run.answer("x")
    await run.result()


async def test_a_hundred_messages_can_wait(client):
    session = client.session("test.agent", "busy")
    first = await slow_turn(session)
    waiting = [await session.send(f"m{n}", message_id=f"id-{n}") for n in range(100)]
    with pytest.raises(SessionBusy, match="100 messages wait"):
        await session.send("one more")
    again = await session.send("m7", message_id="id-7")  # accepted before
    release.set()
    await first.result()
    assert (await again.result()).text == (await waiting[7].result()).text == "9: m7"
    assert (await waiting[-1].result()).text == "101: m99"


async def test_messages_before_the_end_are_answered(client):
    """A closed conversation answers what it has accepted, and refuses the rest."""
    session = client.session("test.agent", "ends")
    turns = [await slow_turn(session), await session.send("last")]
    await session.close("done")
    with pytest.raises(AwaitClosed, match="closed"):
        await session.send("too late")
    release.set()
    assert [(await turn.result()).text for turn in turns] == ["slow: 1", "2: last"]
    assert (await session.run.result()).reason == "closed"
    with pytest.raises(AwaitClosed, match="has ended; it accepts no answers and no messages"):
        await session.send("much too late")


async def test_a_cancel_ends_the_conversation(client):
    session = client.session("test.agent", "canceled")
    await (await session.send("hello")).result()
    await session.run.cancel()
    with pytest.raises(RunCanceled):
        await session.run.result()
    with pytest.raises(AwaitClosed):
        await session.send("hello")


async def test_the_live_and_the_folded_status_are_equal(client, traces):
    """While it is idle, with a turn under way and with messages that wait; also without the worker."""
    session = client.session("test.agent", "status")
    await (await session.send("look")).result()
    for queued in (0, 2):
        if queued:
            await slow_turn(session)
            await session.send("a")
            await session.send("b", mode="steer")
        live = await session.run._query_status()
        folded = await status_in_history(client.temporal, session.run.id)
        assert live is not None
        quiet = {"started_at": None}
        one, other = (each.model_copy(update=quiet).model_dump() for each in (live, folded))
        assert {k: (v, other[k]) for k, v in one.items() if v != other[k]} == {}
        assert live.queued == queued
        assert live.status == ("running" if queued else "idle")
    release.set()


async def test_programs_at_once_talk_to_one_conversation(client):
    """Ten starts at the same moment make one run; each message is answered once, in the order of acceptance."""
    sessions = [client.session("test.agent", "crowd") for _ in range(10)]
    turns = await asyncio.gather(*(s.send(f"m{n}", message_id=f"{n}") for n, s in enumerate(sessions)))
    texts = [(await turn.result()).text for turn in turns]
    assert sorted(int(text.split(":")[0]) for text in texts) == list(range(1, 11))
    events = [event async for event in sessions[0].events(follow=False)]
    received = [event.message_id for event in events if event.type == "message_received"]
    opened = [event.message_ids for event in events if event.type == "turn_started"]
    assert opened == [[message_id] for message_id in received]


async def test_an_idle_conversation_is_listed(client, until):
    session = client.session("test.agent", f"listed-{client.task_queue}")
    await (await session.send("hello")).result()

    async def found() -> bool:
        runs = [each async for each in client.list_runs(session_id=session.session_id)]
        return [(each.run_id, each.status) for each in runs] == [(session.run.id, "idle")]

    assert await until(found)


async def test_a_fork_of_a_conversation_is_one(client, traces):
    """It goes on after the turn at its point, with or without a message, and its origin stays as it is."""
    session = client.session("test.agent", "origin")
    for word in ("hello", "look", "bye"):
        await (await session.send(word)).result()
    events = [event async for event in session.events(follow=False)]
    first = next(event.event_id for event in events if event.type == "turn_completed")
    told = await client.fork(session.run.id, at=first, message="what else?")
    async for event in told.events():
        if event.type == "turn_completed":
            assert event.output.text == "2: what else?"
            break
    idle = await client.fork(session.run.id, at=first)
    assert [run.id.partition("-fork-")[0] for run in (told, idle)] == ["test.agent@origin"] * 2
    other = client.session("test.agent", (await told.status()).session_id)
    assert other.run.id == told.id
    received = [event async for event in told.events(follow=False) if event.type == "message_received"]
    assert [event.message.text for event in received] == ["what else?"]
    for run, text in ((told, "3: on"), (idle, "2: on")):
        turn = SessionTurn(run, await run.send({"text": "on", "message_id": "on"}))
        assert (await turn.result()).text == text
        await traces(run).check()
    assert (await session.status()).turns == 3


async def test_a_megabyte_of_messages_can_wait(client):
    """So that what waits fits into the state of the next execution."""
    session = client.session("test.agent", "large")
    first = await slow_turn(session)
    turns = [await session.send(f"{n}" + "x" * 249_000) for n in range(4)]
    with pytest.raises(SessionBusy, match="4 messages wait"):
        await session.send("y" * 10_000)
    small = await session.send("small")
    release.set()
    await first.result()
    for turn in turns:
        await turn.result()
    assert (await small.result()).text == "6: small"


async def test_a_message_to_a_fork_opens_a_turn_of_its_own(serve):
    """Its planner gets `plan_start`, no result of the turn before, and the message as the first one of the turn."""
    tools, seen = Toolset("test.fork"), []

    @tools.tool
    async def look() -> str:
        """Look."""
        return "seen"

    async def plan(turn: Turn) -> PlanResult:
        seen.append((type(turn).__name__, turn.messages[turn.turn_start].text, len(turn.results)))
        if not turn.results:
            return PlanResult.calls(ToolRequest(name="test.fork.look"))
        return PlanResult.final(f"about {turn.messages[turn.turn_start].text}")

    client = await serve(planner=plan, uses=(tools,))
    session = client.session("test.agent", "forked")
    await (await session.send("hello")).result()
    ends = [event async for event in session.events(follow=False) if event.type == "turn_completed"]
    seen.clear()
    fork = await client.fork(
        session.run.id, at=ends[0].event_id, message="what now", new_run_id="test.agent@forked-2"
    )
    async for event in fork.events():
        if event.type == "turn_completed":
            assert event.output.text == "about what now"
            break
    assert seen == [("PlanInput", "what now", 0), ("PlanResumeInput", "what now", 1)]
    again = await client.session("test.agent", "forked-2").send("and now?")
    assert (await again.result()).text == "about and now?"
    status = await fork.status()
    assert status.session_id == "forked-2"


async def test_an_accepted_message_is_known_after_somebody_has_closed(client):
    """Sent again with its id it gives its turn, before the conversation ends; a new message is refused."""
    session = client.session("test.agent", "closing")
    first = await slow_turn(session)
    await session.send("second", message_id="m2")
    await session.close("enough")
    again = await session.send("second", message_id="m2")
    with pytest.raises(AwaitClosed, match="closed"):
        await session.send("third", message_id="m3")
    release.set()
    await first.result()
    assert "second" in (await again.result()).text
    await session.run.result()
    after = await client.session("test.agent", "closing").send("second", message_id="m2")
    assert "second" in (await after.result()).text
    with pytest.raises(AwaitClosed):
        await session.send("third", message_id="m3")
    events = [event async for event in session.events()]
    assert sum(event.type == "message_received" for event in events) == 2


async def test_a_resume_of_an_idle_conversation_takes_no_messages(client):
    """There is no turn that they could join; the refusal says what to do, and a resume without messages holds."""
    session = client.session("test.agent", "idle-resume")
    await (await session.send("hello")).result()
    await session.run.pause("wait")
    with pytest.raises(InvalidInput, match="send them"):
        await session.run.resume(messages=["lost?"])
    await session.run.resume()
    assert "on" in (await (await session.send("on")).result()).text
    assert not any("lost?" in message.text for message in await session.transcript())


async def test_errors_that_stopped_a_turn_do_not_stop_the_next_one(serve):
    """Three strikes count over turns; once they have stopped one, and the person knows, the next message begins anew."""
    tools, plans = Toolset("test.strikes"), []

    @tools.tool
    async def reach() -> str:
        """Reach a service that is away at first."""
        if len(plans) <= 6:
            raise OSError("connection refused")
        return "reached"

    async def plan(turn: Turn) -> PlanResult:
        plans.append(turn)
        if turn.finalize or turn.results:
            return PlanResult.final(turn.finalize.reason if turn.finalize else "ok")
        return PlanResult.calls(ToolRequest(name="test.strikes.reach"))

    client = await serve(planner=plan, uses=(tools,))
    session = client.session("test.agent", "strikes")
    said = [(await (await session.send(f"m{n}")).result()).reason for n in range(6)]
    assert said == ["answered", "answered", "retries_stopped", *["answered"] * 3]

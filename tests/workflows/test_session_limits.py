"""The limits of a conversation as a whole: turns, tokens, money and idle time."""

import asyncio
from datetime import timedelta

import pytest
from temporalio.api.enums.v1 import EventType

from sojourn import (
    Agent,
    App,
    AwaitClosed,
    InvalidInput,
    PlanResult,
    RunFailed,
    RunPolicy,
    RunPolicyOverride,
    SessionPolicy,
    Toolset,
    Usage,
)
from sojourn.policy import Caps, PolicyDecision

tools = Toolset("limited.tools")
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
    """Answer with the caps of the turn; `look` and `slow` call first; each plan costs 10 tokens and 1 cent."""
    return (await decided(turn)).model_copy(update={"usage": Usage(input_tokens=10, cost=0.01)})


async def decided(turn) -> PlanResult:
    said = [message.text for message in turn.messages if message.role == "user"][-1]
    if turn.finalize:
        return PlanResult.final(turn.finalize.reason)
    if turn.messages[-1].role == "user" and said in ("look", "slow"):
        call = look.call(n=1) if said == "look" else slow.call(n=1)
        return PlanResult.calls(call)
    if said == "think":
        await release.wait()
    return PlanResult.final(f"{turn.caps.tokens} {turn.caps.tool_calls}")


@pytest.fixture
async def talk(serve):
    """Begin a conversation with an agent of this policy; returns its session."""
    release.clear()

    async def begin(name, *, policy=None, override=None, engine=None):
        limits = RunPolicy(session=policy, max_tool_calls=4)
        agent = Agent("test.agent", planner=plan, uses=[tools], policy=limits)
        client = await serve(App(agents=[agent], policy_engine=engine))
        return client.session("test.agent", f"limits-{name}", policy=override)

    return begin


async def say(session, text):
    return (await (await session.send(text)).result()).text


async def ended(session, reason, text):
    output = await session.run.result()
    assert (output.reason, output.text) == (reason, text)
    with pytest.raises(AwaitClosed):
        await session.send("more")
    return output


async def test_the_last_turn_ends_the_conversation(talk, traces):
    session = await talk("turns", policy=SessionPolicy(max_turns=2))
    assert [await say(session, "a"), await say(session, "b")] == ["None 4"] * 2
    output = await ended(session, "max_turns", "The conversation has had its 2 turns.")
    assert output.error
    assert output.error.code == "max_turns"
    assert (await session.status()).status == "completed"
    await traces(session.run).check()


async def test_who_waits_for_a_turn_learns_of_the_limit(talk):
    session = await talk("waits", policy=SessionPolicy(max_turns=1))
    first = await session.send("slow")
    async for event in first.events():
        if event.type == "tool_start":
            break
    second = await session.send("too late")
    release.set()
    await first.result()
    with pytest.raises(RunFailed, match=r"had its 1 turn\.") as failed:
        await second.result()
    assert failed.value.code == "max_turns"
    assert [event.type async for event in second.events()] == ["message_received", "run_completed"]


async def test_failed_and_interrupted_turns_count(talk):
    session = await talk("interrupts", policy=SessionPolicy(max_turns=2))
    first = await session.send("slow")
    async for event in first.events():
        if event.type == "tool_start":
            break
    second = await session.send("look", mode="interrupt")
    await second.result()
    with pytest.raises(RunFailed, match="interrupted"):
        await first.result()
    await ended(session, "max_turns", "The conversation has had its 2 turns.")


async def test_tokens_are_those_that_the_turns_before_have_left(talk, traces):
    session = await talk("tokens", policy=SessionPolicy(max_tokens=35))
    assert await say(session, "a") == "35 4"
    assert await say(session, "b") == "25 4"
    assert await say(session, "look") == "5 3"  # 15 less those of the plan before
    output = await ended(session, "max_tokens", "The conversation's tokens are used up.")
    assert (output.usage.input_tokens, output.tool_calls) == (40, 1)
    await traces(session.run).check()


async def test_tokens_that_end_in_a_turn_end_that_turn_and_the_conversation(talk):
    session = await talk("in-turn", policy=SessionPolicy(max_tokens=10))
    turn = await session.send("look")
    output = await turn.result()
    assert (output.text, output.reason) == ("max_tokens", "max_tokens")
    await ended(session, "max_tokens", "The conversation's tokens are used up.")


async def test_money(talk):
    session = await talk("money", override=RunPolicyOverride(session=SessionPolicy(max_cost=0.02)))
    await say(session, "a")
    await say(session, "b")
    await ended(session, "max_cost", "The conversation's money is used up.")


async def test_nobody_sends_a_message(talk, traces):
    """Each message begins the time anew; a turn that takes longer does not end the conversation."""
    session = await talk("idle", policy=SessionPolicy(idle_timeout=timedelta(seconds=1)))
    held, queued = await session.send("slow"), await session.send("a")
    await asyncio.sleep(1.2)
    release.set()
    await held.result()
    await queued.result()
    output = await ended(session, "idle_timeout", "Nobody sent a message for 0:00:01.")
    assert output.error is None
    events = [event async for event in session.run.events(follow=False)]
    answered = [event.time for event in events if event.type == "turn_completed"]
    assert len(answered) == 2
    assert events[-1].time - answered[-1] >= timedelta(seconds=1)
    await traces(session.run).check()


async def test_a_paused_conversation_is_not_idle(talk, until):
    session = await talk("paused", policy=SessionPolicy(idle_timeout=timedelta(seconds=1)))
    turn = await session.send("think")
    await session.run.pause()
    release.set()
    await turn.result()
    await asyncio.sleep(1.5)
    assert (await session.status()).status == "paused"
    turn = await session.send("b")
    await session.run.resume()
    assert (await turn.result()).text == "None 4"
    await ended(session, "idle_timeout", "Nobody sent a message for 0:00:01.")


async def test_the_idle_time_begins_anew_after_a_pause(talk, traces):
    """A conversation that is resumed has its whole idle time before it, whatever of it had passed before the pause."""
    timeout = timedelta(seconds=30)
    session = await talk("resumed", policy=SessionPolicy(idle_timeout=timeout))
    await say(session, "a")
    await session.run.pause()
    await session.run.resume()
    timers = [
        event.timer_started_event_attributes.start_to_fire_timeout.ToTimedelta()
        for event in await traces(session.run).history()
        if event.event_type == EventType.EVENT_TYPE_TIMER_STARTED
    ]
    assert timers == [timeout, timeout]
    await session.run.close()


async def test_what_a_policy_engine_lowers_counts_for_that_turn(talk):
    """Each turn begins with the agent's policy."""

    class Engine:
        async def decide(self, given):
            first = given.run.turn_id == "t1"
            return PolicyDecision(caps=Caps(tool_calls=1) if first else None)

    session = await talk("engine", engine=Engine())
    assert [await say(session, word) for word in ("look", "look")] == ["None 0", "None 3"]


async def test_a_bad_limit_is_refused_at_once(talk):
    session = await talk("bad")
    with pytest.raises(InvalidInput, match="labels"):
        session._client.session("test.agent", "x", labels={1: 2})


def test_the_stricter_of_two_session_policies():
    ours = RunPolicy(session=SessionPolicy(max_turns=5, max_tokens=9))
    theirs = RunPolicyOverride(
        session=SessionPolicy(max_turns=7, max_tokens=3, idle_timeout=timedelta(days=1))
    )
    assert ours.tightened(theirs).session == SessionPolicy(
        max_turns=5, max_tokens=3, idle_timeout=timedelta(days=1)
    )
    assert RunPolicy().tightened(theirs).session == theirs.session

"""A turn of a conversation whose local plan an interruption cuts off, so that the history has nothing of the plan.

The first plan of a turn is an ordinary one. In histories of before it was not: tests/replay holds one.
"""

import asyncio
import contextlib
import uuid
from datetime import timedelta

import pytest
from temporalio import activity

from sojourn import Agent, App, PlanResult, RunFailed, Toolset, Turn
from sojourn.contracts import RunInput
from sojourn.events.one_run import status_in_history, transcript_of
from tests.chain import replay

tools = Toolset("test.cut")
hangs, release = asyncio.Event(), asyncio.Event()


@tools.tool
async def look(n: int) -> int:
    """Return the number, once the test lets go."""
    await release.wait()
    return n


async def plan(turn: Turn) -> PlanResult:
    """Answer with what was said; call at "look", and hang at "hang", whoever cancels it, where a local activity plans."""
    said = [message.text for message in turn.messages if message.role == "user"]
    if said[-1] == "look":
        return PlanResult.calls(look.call(n=1))
    if activity.info().is_local and said[-1] == "hang":
        hangs.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.Event().wait()
    return PlanResult.final(" ".join(said))


app = App(agents=[Agent("test.agent", planner=plan, uses=[tools], local=True)])


@pytest.fixture
async def session(serve):
    """A conversation with one turn, whose workflow tasks are so short that an interruption reaches it while a local plan is under way."""
    hangs.clear()
    release.clear()
    client = await serve(app)
    session = client.session("test.agent", f"desk-{uuid.uuid4().hex[:8]}")
    await client.temporal.start_workflow(
        "AgentRun",
        RunInput(agent_id="test.agent", messages=[], session_id=session.session_id, conversation=True),
        id=session.run.id,
        task_queue=client.task_queue,
        task_timeout=timedelta(seconds=1),
    )
    assert (await (await session.send("one", message_id="m1")).result()).text == "one"
    return session


async def interrupted(session, *turns) -> None:
    """Interrupt the plan that hangs, and wait until each of these turns has failed."""
    await hangs.wait()
    assert await session.interrupt("wrong shop")
    for turn in turns:
        with pytest.raises(RunFailed, match="wrong shop") as failed:
            await asyncio.wait_for(turn.result(), 60)
        assert failed.value.code == "interrupted"


async def told(session) -> list[tuple[str, str, list[str]]]:
    """The events of turns, each with its turn and its messages."""
    events = [event async for event in session.events(follow=False)]
    return [
        (event.type, event.turn_id, event.message_ids) for event in events if event.type.startswith("turn_")
    ][2:]


async def agrees(session) -> None:
    """The status that the history tells equals that of the run, and the history replays."""
    temporal = session.run.client.temporal
    await replay(temporal, session.run.id)
    live, folded = await session.run._query_status(), await status_in_history(temporal, session.run.id)
    one, other = (
        status.model_copy(update={"started_at": None}).model_dump(exclude={"caps"})
        for status in (live, folded)
    )
    assert one == other


async def goes_on(session, answer: str, traces) -> None:
    """The next turn's planner reads every message, in order, and the history tells the run's transcript."""
    assert (await (await session.send("three", message_id="m9")).result()).text == answer
    recorded = await transcript_of(session.run.client.temporal, session.run.id, None)
    assert recorded == await traces(session.run).check()
    await agrees(session)


async def test_a_message_that_joined_the_plan_is_told(session, traces):
    """A message that steers the turn at a local plan that is cut off has joined the turn, and has failed with it."""
    turn = await session.send("look", message_id="m2")
    async for event in turn.events():
        if event.type == "tool_start":
            break
    steer = await session.send("hang", message_id="m3", mode="steer")
    release.set()
    await interrupted(session, turn, steer)
    assert await told(session) == [
        ("turn_started", "t2", ["m2"]),
        ("turn_steered", "t2", ["m3"]),
        ("turn_failed", "t2", ["m2", "m3"]),
    ]
    await agrees(session)
    await goes_on(session, "one look hang three", traces)

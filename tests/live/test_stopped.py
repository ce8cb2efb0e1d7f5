"""Text that was streamed before a turn or a run was stopped stays readable, and the next planner reads it."""

import asyncio
import uuid

import pytest

from sojourn import Agent, App, PlanResult, RunFailed
from sojourn.errors import RunCanceled
from sojourn.live import current_deltas
from sojourn.live.deltas import MAX_PARTIAL


@pytest.fixture(autouse=True)
def prompt(monkeypatch):
    """Let a plan learn quickly that it is cancelled."""
    monkeypatch.setattr("activities.heartbeat.FIRST_BEAT", 0.05)
    monkeypatch.setattr("activities.heartbeat.INTERVAL", 0.2)


async def plan(turn) -> PlanResult:
    """Write what the message says in two pieces and hang; or say what has been read."""
    word, _, rest = turn.messages[-1].text.partition(" ")
    if word == "read":
        return PlanResult.final(" | ".join(f"{each.role}: {each.text}" for each in turn.messages))
    if word == "write":
        while (deltas := current_deltas()) is None:
            await asyncio.sleep(0.005)
        await deltas.thinking("Hm.")
        await deltas.text("The site ")
        await deltas.text(rest)
    await asyncio.Event().wait()
    return PlanResult.final("never")


@pytest.fixture
async def client(serve):
    return await serve(App(agents=[Agent("test.agent", planner=plan)]))


async def stopped(session, message: str, seen: str) -> None:
    """Interrupt the turn of a message once its text is seen."""
    turn, text = await session.send(message), ""
    async for event in turn.events(deltas=True):
        text += event.text if event.type == "text_delta" else ""
        if text.endswith(seen) and (event.type == "text_delta" or not seen):
            break
    await session.interrupt("enough")
    with pytest.raises(RunFailed, match="enough"):
        await turn.result()


async def test_the_text_of_an_interrupted_turn_stays(client):
    """The history has it as a partial message, and the next planner reads it before the failure."""
    session = client.session("test.agent", uuid.uuid4().hex)
    await stopped(session, "write is dark.", "is dark.")
    said = [event async for event in session.events(follow=False)][-2:]
    assert [event.type for event in said] == ["assistant_message", "turn_failed"]
    assert (said[0].message.text, said[0].is_partial) == ("The site is dark.", True)
    read = (await (await session.send("read")).result()).text
    assert read == (
        "user: write is dark. | assistant: The site is dark. | "
        "system: The last turn failed: the turn was interrupted: enough | user: read"
    )
    whole = [event async for event in session.events(follow=False)]
    assert [event.is_partial for event in whole if event.type == "assistant_message"] == [True, False]
    assert [message.text for message in await session.transcript()][1] == "The site is dark."


async def test_a_turn_that_wrote_nothing_has_no_message(client):
    """Neither a turn without text nor the one after it repeats an earlier text."""
    session = client.session("test.agent", uuid.uuid4().hex)
    await stopped(session, "write is dark.", "is dark.")
    await stopped(session, "hang", "")
    events = [event async for event in session.events(follow=False)]
    assert [event.type for event in events].count("assistant_message") == 1
    assert (await (await session.send("read")).result()).text.count("The site") == 1


async def test_a_long_text_is_cut(client):
    """The history keeps the beginning of a very long text."""
    session = client.session("test.agent", uuid.uuid4().hex)
    long = "x" * MAX_PARTIAL
    await stopped(session, f"write {long}", "x")
    (said,) = [event async for event in session.events(follow=False) if event.type == "assistant_message"]
    assert said.message.text == f"The site {long}"[:MAX_PARTIAL]


async def test_the_text_of_a_canceled_run_stays(client):
    """A run that is no conversation keeps it too."""
    run, text = await client.start("test.agent", "write is dark."), ""
    async for event in run.events(deltas=True):
        text += event.text if event.type == "text_delta" else ""
        if text == "The site is dark.":
            break
    await run.cancel()
    with pytest.raises(RunCanceled):
        await run.result()
    said = [event async for event in run.events()][-3:]
    assert [event.type for event in said] == ["assistant_message", "run_canceled", "run_stream_end"]
    assert (said[0].message.text, said[0].is_partial) == ("The site is dark.", True)

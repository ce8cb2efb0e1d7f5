"""A program that talks: it reads the history of its conversation once, not anew for each turn."""

import asyncio
import uuid

import pytest
from temporalio.client import Client as TemporalClient
from temporalio.client import Interceptor, OutboundInterceptor

from sojourn import Client, PlanResult, Session, Toolset, progress
from tests.resets import reset_before_update
from tests.workflows.test_endless import short

__all__ = ["short"]

tools = Toolset("talk.tools")
release = asyncio.Event()


@tools.tool
async def slow(n: int) -> int:
    """Take until the test lets go."""
    progress("under way")
    await release.wait()
    return n


async def plan(turn) -> PlanResult:
    said = [message.text for message in turn.messages if message.role == "user"]
    if turn.messages[-1].role != "tool" and said[-1] == "slow":
        return PlanResult.calls(slow.call(n=1))
    return PlanResult.final(f"{len(said)}: {said[-1]}")


class Fetches(Interceptor):
    """Counts how often a client begins to read a history."""

    def __init__(self) -> None:
        self.count = 0

    def intercept_client(self, next):
        outer = self

        class Counting(OutboundInterceptor):
            def fetch_workflow_history_events(self, input):
                outer.count += 1
                return super().fetch_workflow_history_events(input)

        return Counting(next)


@pytest.fixture
async def client(serve):
    release.clear()
    return await serve(planner=plan, uses=(tools,))


@pytest.fixture
def fetches() -> Fetches:
    return Fetches()


@pytest.fixture
def session(client, fetches) -> Session:
    """A conversation whose readings are counted."""
    counted = TemporalClient(**{**client.temporal.config(), "interceptors": [fetches]})
    return Client(counted, task_queue=client.task_queue).session("test.agent", uuid.uuid4().hex)


async def said(session, text: str, **more) -> str:
    turn = await session.send(text, **more)
    return (await turn.result()).text


async def test_later_turns_go_on_where_the_earlier_ones_ended(session, fetches):
    """Only the first turn begins to read; each later one has its own events, from its message to its end."""
    await said(session, "one")
    begun = fetches.count
    for n in range(2, 6):
        turn = await session.send("more")
        kinds = [event.type async for event in turn.events()]
        assert kinds == [
            "message_received",
            "turn_started",
            "plan_started",
            "assistant_message",
            "turn_completed",
        ]
        assert turn.turn_id == f"t{n}"
    assert fetches.count == begun


async def test_what_others_send_meanwhile_is_read_over(session, client, fetches):
    """The answers are those of the program's own messages, whoever else talks in between."""
    other = client.session("test.agent", session.session_id)
    assert await said(session, "mine") == "1: mine"
    begun = fetches.count
    assert await said(other, "theirs") == "2: theirs"
    assert await said(session, "mine again") == "3: mine again"
    assert fetches.count == begun


async def test_turns_that_are_awaited_together_have_their_answers(session):
    """In any order, and of messages that were sent before what another turn has read."""
    for n in range(3):
        turns = [await session.send(f"m{n}") for n in range(5)]
        texts = await asyncio.gather(*(turn.result() for turn in reversed(turns)))
        assert [text.text for text in texts] == [f"{5 * n + k + 1}: m{k}" for k in (4, 3, 2, 1, 0)]
        assert [(await turn.result()).text for turn in turns] == [text.text for text in reversed(texts)]


async def test_a_message_sent_again_is_found_where_it_was_accepted(session):
    """An earlier message gives its turn's answer, although the program has read further."""
    for n in range(3):
        await said(session, f"m{n}", message_id=f"id-{n}")
    assert await said(session, "m1", message_id="id-1") == "2: m1"
    assert await said(session, "last") == "4: last"


async def test_a_reader_that_was_cut_off_is_no_harm(session):
    """A turn whose events were left early, or whose wait was cancelled, has its answer all the same, and so have those after it."""
    await said(session, "one")
    turn = await session.send("slow")
    async for event in turn.events():
        if event.type == "tool_start":
            break
    for pause in (0.0, 0.001, 0.01, 0.05):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(pause):
                await turn.result()
    release.set()
    assert (await turn.result()).text == "2: slow"
    assert await said(session, "three") == "3: three"


async def test_a_call_in_flight_is_seen_by_every_turn(session):
    """A reading is not kept in the middle of a turn: who follows a steer learns of the call that began before."""
    await said(session, "one")
    held = await session.send("slow")
    async for event in held.events():
        if event.type == "tool_start":
            break
    steer = await session.send("hurry", mode="steer")
    async with asyncio.timeout(60):
        async for event in steer.events(earlier=True):
            if event.type == "tool_update":
                break
    release.set()
    assert (await steer.result()).text == (await held.result()).text


async def test_a_long_talk_goes_on_in_new_executions(session, short, fetches):
    """Each new execution is read once, and every turn has its answer."""
    await said(session, "one")
    begun = fetches.count
    for n in range(2, 16):
        assert await said(session, "more") == f"{n}: more"
    events = [event.type async for event in session.events(follow=False)]
    continued = events.count("run_continued")
    assert continued >= 2
    assert begun < fetches.count


async def test_a_talk_goes_on_after_a_reset(session, client):
    """A conversation that was reset between two turns is read anew, in the execution that goes on."""
    await said(session, "one")
    await said(session, "two")
    await reset_before_update(client, session.run.id, 2)
    assert await said(session, "three") == "3: three"
    assert await said(session, "four") == "4: four"


async def test_a_message_that_a_reset_sends_anew_is_in_the_events(session, client, until):
    """It is received, and has its turn, as the run has it; its sender gets the answer."""
    await said(session, "one", message_id="m1")
    two = await session.send("two", message_id="m2")
    assert (await two.result()).text == "2: two"
    await reset_before_update(client, session.run.id, 2)

    async def is_idle() -> bool:
        status = await session.status()
        return status.turns == 2 and status.status == "idle"

    await until(is_idle)
    events = [event async for event in session.events(follow=False)]
    assert [event.message_id for event in events if event.type == "message_received"] == ["m1", "m2"]
    ended = [event for event in events if event.type == "turn_completed"]
    assert [event.output.text for event in ended] == ["1: one", "2: two"]
    assert (await (await session.send("two", message_id="m2")).result()).text == "2: two"

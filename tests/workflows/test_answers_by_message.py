"""A message that answers a question is delivered once: as that answer, and not as a message, nor as another answer."""

import asyncio
import uuid

import pytest

from sojourn import AwaitClarification, AwaitClosed, InvalidInput, PlanResult, RunPolicy, Toolset
from tests.workflows.test_endless import short

__all__ = ["short"]

tools = Toolset("asked.tools")


@tools.tool(confirmation="Wipe {disk}?", destructive=True)
async def wipe(disk: str) -> str:
    """Destroy."""
    return f"wiped {disk}"


async def plan(turn) -> PlanResult:
    """Ask, ask again, have a call approved; then answer with all that was said, and all that was done."""
    said = [message.text for message in turn.messages[turn.turn_start :] if message.role == "user"]
    if said[0] != "ask":
        return PlanResult.final(said[0])
    if len(said) < 3:
        return PlanResult.ask(AwaitClarification(question=f"Question {len(said)}?"))
    if not turn.tool_results:
        return PlanResult.calls(wipe.call(disk="a"))
    return PlanResult.final(" ".join([*said, str(turn.tool_results[0].result)]))


@pytest.fixture
async def session(serve):
    client = await serve(planner=plan, uses=(tools,), policy=RunPolicy(interrupts_allowed=True))
    return client.session("test.agent", uuid.uuid4().hex)


async def asked(session, await_id: str = ""):
    """The wait that is open now, and is not that one."""
    while True:
        waits = (await session.status()).awaits
        if waits and waits[0].id != await_id:
            return waits[0]
        await asyncio.sleep(0.02)


async def test_a_message_is_one_answer(session):
    """Sent again it is refused for another wait, also while it is on its way, and is no message."""
    turn = await session.send("ask")
    first = await asked(session)
    with pytest.raises(InvalidInput, match="at most 200 characters"):
        await session.run.answer(first, "red", message_id="m" * 201)
    given = await asyncio.gather(*[session.run.answer(first, "red", message_id="m-1") for _ in range(5)])
    assert set(given) == {first.id}
    second = await asked(session, first.id)
    with pytest.raises(AwaitClosed):
        await session.run.answer(second, "red", message_id="m-1")
    again = await session.send("red", message_id="m-1")
    assert again.is_answer
    await session.run.answer(second, "blue", message_id="m-2", by="ana")
    call = await asked(session, second.id)
    with pytest.raises(AwaitClosed):
        await session.run.approve(call, message_id="m-2")
    await session.run.approve(call, message_id="m-3")
    with pytest.raises(AwaitClosed):
        await session.run.deny(call, message_id="m-1")
    assert (await turn.result()).text == "ask red blue wiped a"
    assert (await again.result()).text == "ask red blue wiped a"
    answers = [event async for event in session.events(follow=False) if event.type == "await_answered"]
    assert [event.message_id for event in answers] == ["m-1", "m-2", "m-3"]
    assert (await session.status()).turns == 1


async def test_a_message_is_no_answer_once_it_was_delivered(session):
    """It has its turn, which it does not get twice, and answers nothing."""
    await (await session.send("hello", message_id="m-1")).result()
    turn = await session.send("ask", message_id="m-2")
    wait = await asked(session)
    for message_id in ("m-1", "m-2"):
        with pytest.raises(AwaitClosed, match="delivered before"):
            await session.run.answer(wait, "red", message_id=message_id)
    assert not (await session.send("ask", message_id="m-2")).is_answer
    await session.run.answer(wait, "red")
    await session.run.answer(await asked(session, wait.id), "blue")
    await session.run.approve(await asked(session))
    assert (await turn.result()).text == "ask red blue wiped a"


async def test_answers_are_known_in_later_executions(short, session):
    """However many executions later, the message of an answer is no message; and after the conversation was closed, and in its history."""
    await session.send("ask")
    first = await asked(session)
    await session.run.answer(first, "red", message_id="m-1")
    second = await asked(session, first.id)
    await session.run.remember("m-2")
    for n in range(12):
        await session.send(f"wait {n}", mode="queue", message_id=f"w-{n}")
    await session.run.answer(second, "blue")
    await session.run.approve(await asked(session, second.id))
    for n in range(12):
        await (await session.send("x", message_id=f"w-{n}")).result()
    continued = [event async for event in session.events(follow=False) if event.type == "run_continued"]
    assert len(continued) >= 2
    for message_id in ("m-1", "m-2"):
        assert (await session.send("red", message_id=message_id)).is_answer
    turn = await session.send("ask")
    third = await asked(session, second.id)
    with pytest.raises(AwaitClosed, match="delivered before"):
        await session.run.answer(third, "red", message_id="m-1")
    await session.interrupt()
    await session.close()
    with pytest.raises(Exception, match="interrupted"):
        await turn.result()
    await session.run.result()
    assert (await session.send("red", message_id="m-1")).is_answer

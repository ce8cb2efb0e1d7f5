"""docs/conversations.md: its program works as written, and so do its commands of Temporal's CLI."""

from datetime import timedelta

import pytest

from sojourn import Agent, App, PlanResult, RunFailed, RunPolicy, ToolRequest
from sojourn.testing import skip_time


async def clerk(turn):
    said = [message.text for message in turn.messages if message.role == "user"]
    return PlanResult.final(f"{len(said)}: {said[-1]}")


async def test_the_program_and_the_commands(serve, blocks, shell, until):
    """Two messages by the program, two by the CLI, and the end by the CLI."""
    client = await serve(App(agents=[Agent("shop.clerk", planner=clerk)]))
    scope: dict = {}
    for program in blocks("conversations.md"):
        exec(program, scope)
    assert await scope["talk"](client) == ["1: Where is order 7?", "2: And order 8?"]
    other = client.session("shop.clerk", "desk-2")
    assert await scope["change_of_mind"](other) == "1: No: only look at order 9"
    assert not await scope["stop"](other)
    assert await scope["show"](other, "iVBORw0KGgo=") == "2: What is this?"
    assert await scope["try_another_question"](client, other) == "3: And order 10?"
    bounded = scope["bounded"](client)
    assert (await (await bounded.send("hi")).result()).text == "1: hi"

    async def are_idle() -> bool:
        return {"desk-1", "desk-2", "desk-3"} <= set(await scope["idle_desks"](client))

    await until(are_idle)
    (commands,) = blocks("conversations.md", "sh")
    for line in commands.splitlines():
        status, printed = await shell(line)
        assert status == 0, printed
    session = client.session("shop.clerk", "desk-1")
    assert (await session.run.result()).reason == "closed"
    texts = [message.text for message in await session.transcript() if message.role == "assistant"]
    assert texts[2:] == ["3: And order 9?", "4: And order 10?"]


async def test_the_memory_of_the_page(serve, blocks):
    """The planner counts its turns, the tools remember and read, and the model's instructions show what is known."""
    scope: dict = {}
    for program in blocks("conversations.md"):
        exec(program, scope)
    asked: list[str] = []

    async def plan(turn):
        text = turn.messages[-1].text
        if turn.results:
            asked.append(scope["instructions"](turn.run))
            return PlanResult.final(str(turn.results[-1].result))
        if text == "count":
            return await scope["plan"](turn)
        payload = {"name": "name", "value": text or None} if text != "greet" else {}
        tool = "remember" if payload else "greeting"
        return PlanResult.calls(ToolRequest(name=f"shop.memory.{tool}", payload=payload))

    client = await serve(App(agents=[Agent("shop.clerk", planner=plan, uses=[scope["shop"]])]))
    session = client.session("shop.clerk", "memory")
    said = [(await (await session.send(text)).result()).text for text in ("count", "ana", "greet", "count")]
    assert said == [
        "This is your question number 1.",
        "noted",
        "Hello ana!",
        "This is your question number 2.",
    ]
    assert await session.memory() == {"visits": 2, "customer": {"name": "ana"}}
    assert asked[-1].endswith('{"visits": 1, "customer": {"name": "ana"}}')


async def test_what_happens_inside_a_turn(serve, blocks):
    """The page's planner reads an answer, a steer and an expired question, and the note of an interrupted turn comes before the next."""
    scope: dict = {}
    for program in blocks("conversations.md"):
        exec(program, scope)
    seen: list = []

    async def plan(turn):
        seen.append(turn)
        return await scope["find_order"](turn)

    may_ask = RunPolicy(interrupts_allowed=True)
    client = await serve(App(agents=[Agent("shop.finder", planner=plan, policy=may_ask)]))
    session = client.session("shop.finder", "inside")
    answered = await session.send("Where is my order?")
    (question,) = await session.run.until_waiting()
    await session.run.answer(question.id, "7")
    assert (await answered.result()).text == "Order 7 is on its way."
    assert [message.role for message in seen[-1].messages] == ["user", "assistant", "user"]
    assert (seen[-1].turn_start, seen[-1].reminders) == (0, [])

    expired = await session.send("And the other?")
    await session.run.until_waiting()
    await skip_time(session.run, timedelta(days=2))
    assert (await expired.result()).text.startswith("I looked for no order. Nobody answered within")
    assert seen[-1].messages[-1].text == seen[-1].reminders[0]

    declined = await session.send("And that one?")
    (question,) = await session.run.until_waiting()
    await session.run.decline(question.id)
    assert (await declined.result()).text == "I looked for no order. The question was declined."
    assert seen[-1].messages[-1].text == seen[-1].reminders[0]

    steered = await session.send("And mine?")
    (question,) = await session.run.until_waiting()
    steer = await session.send("it is 9", mode="steer")
    await session.run.answer(question.id, "I do not know")
    assert (await steered.result()).text == (await steer.result()).text == "Order 9 is on its way."
    assert (seen[-1].messages[-1].text, seen[-1].reminders) == ("it is 9", [])

    stopped = await session.send("And hers?")
    await session.run.until_waiting()
    last = await session.send("order 10", mode="interrupt")
    assert (await last.result()).text == "Order 10 is on its way."
    with pytest.raises(RunFailed, match="interrupted"):
        await stopped.result()
    note = seen[-1].messages[seen[-1].turn_start - 1]
    assert (note.role, note.text) == ("system", "The last turn failed: the turn was interrupted")
    assert note.text in seen[-1].reminders
    assert (answered.turn_id, expired.turn_id) == ("t1", "t3")
    assert (steered.turn_id, steer.turn_id) == ("t6", "t7")
    status = await session.status()
    assert status.turns == 6 < int(status.turn_id.removeprefix("t"))

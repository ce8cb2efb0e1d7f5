"""docs/conversations.md: its program works as written, and so do its commands of Temporal's CLI."""

from sojourn import Agent, App, PlanResult, ToolRequest


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

"""An operator sets messages and results of a run aside, and planners read them no more."""

import asyncio

import pytest

from sojourn import AwaitClosed, InvalidInput, PlanResult, RunPolicy, Toolset
from sojourn.core.run.set_aside import requests_in
from sojourn.events.one_run import status_in_history

LEFT_OUT = "(A message was left out here, because an operator set it aside.)"
RESULT_LEFT_OUT = (
    "(The call succeeded, and its effect, if it has one, took place. "
    "Its result was left out here, because an operator set it aside.)"
)

tools = Toolset("aside.tools")
started, release = asyncio.Event(), asyncio.Event()


@tools.tool(read_only=True)
async def look(n: int) -> str:
    """Look."""
    return "poison" if n == 1 else "fine"


@tools.tool(read_only=True)
async def slow() -> str:
    """Take until the test lets go."""
    started.set()
    await release.wait()
    return "done"


async def plan(turn) -> PlanResult:
    """A planner whose provider fails for every conversation with the word in it, and never says why."""
    if any("poison" in message.model_dump_json() for message in turn.messages):
        return PlanResult.fail("the model's provider failed")
    last, texts = turn.messages[-1], [each.text for each in turn.messages if each.role == "user"]
    said = texts[-1]
    answered = [result for message in turn.messages for result in message.tool_results]
    if said == "look" and last.role == "user":
        return PlanResult.calls(look.call(n=1), look.call(n=2))
    if said == "slow" and last.role != "tool" and not (answered and answered[-1].result == "done"):
        return PlanResult.calls(slow.call())
    return PlanResult.final(f"{texts[0]} {[result.result for result in answered]}")


@pytest.fixture
async def client(serve):
    started.clear()
    release.clear()
    return await serve(planner=plan, uses=(tools,), policy=RunPolicy(max_tool_calls=9))


async def notes_of(run) -> list[tuple[str, str | None]]:
    """The events about what was set aside, each with who did it."""
    events = [event async for event in run.events(follow=False)]
    return [(e.text, e.by) for e in events if e.type == "planner_note" and e.text.startswith("set aside")]


async def test_a_conversation_goes_on_after_a_message_and_a_result_were_set_aside(client, traces):
    """By the id of a message and of a call; later turns and executions do not read them, and the transcript keeps all, with who and why."""
    session = client.session("test.agent", "poisoned")
    run = session.run
    turn = await session.send("poison", message_id="m-1")
    with pytest.raises(Exception, match="provider failed"):
        await turn.result()
    with pytest.raises(Exception, match="provider failed"):
        await (await session.send("hello")).result()
    assert await run.set_aside("m-1", "breaks every turn", by="ana")
    assert not await run.set_aside(0, "once more", by="bo")
    assert (await (await session.send("hello")).result()).text == f"{LEFT_OUT} []"
    with pytest.raises(Exception, match="provider failed"):
        await (await session.send("look")).result()
    events = [event async for event in run.events(follow=False)]
    call_id = next(e.tool_call_id for e in events if e.type == "tool_end" and e.result.result == "poison")
    assert await run.set_aside(call_id)
    answer = (await (await session.send("hello")).result()).text
    assert answer == f"{LEFT_OUT} ['{RESULT_LEFT_OUT}', 'fine']"
    messages = await session.transcript()
    [of_message, of_result] = requests_in(messages)
    assert (of_message.message, of_message.reason, of_message.by) == (0, "breaks every turn", "ana")
    assert (of_result.tool_call_id, messages[of_result.message].tool_results[0].result) == (call_id, "poison")
    assert await notes_of(run) == [
        ("set aside: message 0: breaks every turn", "ana"),
        (f"set aside: the result of {call_id} in message {of_result.message}", None),
    ]
    live, folded = await run._query_status(), await status_in_history(client.temporal, run.id)
    assert live is not None
    assert live.notes == folded.notes
    await traces(run).check()
    await session.close()
    assert (await run.result()).reason == "closed"
    with pytest.raises(AwaitClosed):
        await run.set_aside(0)


async def test_the_next_plan_of_a_running_turn_reads_it_no_more(client):
    """What is set aside while a call is in flight is gone in the plan after it."""
    session = client.session("test.agent", "running")
    await (await session.send("hello")).result()
    turn = await session.send("slow", message_id="m-2")
    await started.wait()
    messages = await session.transcript()
    poisoned = next(index for index, each in enumerate(messages) if each.text == "hello")
    assert await session.run.set_aside(poisoned)
    release.set()
    assert (await turn.result()).text == f"{LEFT_OUT} ['done']"
    handed = [each async for each in session.run.events(follow=False) if each.type == "planner_note"]
    assert [each.text for each in handed] == [f"set aside: message {poisoned}"]
    roles = [each.role for each in await session.transcript()]
    assert roles == ["user", "assistant", "user", "assistant", "tool", "system", "assistant"]


async def test_what_is_not_in_the_transcript_is_refused(client):
    """Each refusal says what there is; none leaves a trace."""
    session = client.session("test.agent", "refused")
    await (await session.send("hello", message_id="m-1")).result()
    run = session.run
    for what, why in ((2, "no message 2; it has 2, from 0 on"), ("c9", "'c9'"), (-1, "no message -1")):
        with pytest.raises(InvalidInput, match=why):
            await run.set_aside(what)
    handle = client.temporal.get_workflow_handle(run.id)
    for sent in ({"message": 7}, {"message": "0"}, {"message": 0, "also": 1}):
        with pytest.raises(Exception, match="update failed"):
            await handle.execute_update("set_aside", sent)
    assert requests_in(await session.transcript()) == []
    assert await notes_of(run) == []

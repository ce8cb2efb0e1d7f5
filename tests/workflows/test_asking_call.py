"""A model asks by a call: its message is recorded unchanged, and the answer is that call's result (SR-94)."""

from datetime import timedelta

import pytest

from sojourn import AwaitClarification, Message, PlanResult, RunPolicy, ToolRequest
from sojourn.testing.scripted import ScriptedPlanner

ASKS = RunPolicy(interrupts_allowed=True)


def asking(*calls: ToolRequest, asks: str | None = "c1", text: str = "", **question) -> PlanResult:
    """A plan that asks by the call with the id `asks`, with a message of the text and these calls."""
    message = Message.calls(list(calls))
    parts = [*(Message.assistant(text).parts if text else []), *message.parts]
    return PlanResult(
        await_=AwaitClarification(id="q", question="which?", tool_call_id=asks, **question),
        message=message.model_copy(update={"parts": parts}),
    )


ask = ToolRequest(name="ask_user", payload={"question": "which?"}, tool_call_id="c1")
beside = ToolRequest(name="test.tools.note", payload={"text": "a"}, tool_call_id="c2")


async def test_the_answer_is_the_result_of_the_call_that_asks(serve, traces, status_when):
    """In the transcript the call that asks has the answer as result, and the other call is not executed."""
    story = [asking(ask, beside, text="Let me ask."), PlanResult.final("done")]
    planner = ScriptedPlanner(story)
    client = await serve(planner=planner, policy=ASKS)
    run = await client.start("test.agent", "go")
    status = await status_when(run, lambda status: status.awaits)
    assert status.awaits[0].tool_call_id is None
    assert await run.transcript() == await traces(run).transcript()
    await run.answer("q", "the third", by="ana")
    await run.result()
    messages = await traces(run).check()
    assert [message.role for message in messages] == ["user", "assistant", "tool", "assistant"]
    assert messages[1].text == "Let me ask."
    answer, other = messages[2].tool_results
    assert (answer.tool_call_id, answer.name, answer.result, answer.error) == (
        "c1",
        "ask_user",
        "the third",
        None,
    )
    assert "not executed" in str(other.error)
    assert messages == await run.transcript()
    assert planner.turns[-1].messages == messages[:-1]
    assert planner.turns[-1].run.turn_id == "t2"
    status = await run.status()
    assert (status.status, status.calls, status.safeguards) == ("completed", [], None)
    texts = [event.message.text async for event in run.events() if event.type == "assistant_message"]
    assert texts == ["Let me ask.", "done"]


@pytest.mark.parametrize(
    ("ends", "text"), [("expires", "Nobody answered"), ("declined", "The question was declined: not now")]
)
async def test_without_an_answer_the_call_has_a_result_too(serve, traces, status_when, ends, text):
    """When the question expires or is declined, the result of the call that asks says so."""
    expiry = timedelta(seconds=1) if ends == "expires" else None
    planner = ScriptedPlanner([asking(ask, expires_after=expiry), PlanResult.final("done")])
    client = await serve(planner=planner, policy=ASKS)
    run = await client.start("test.agent", "go")
    if ends == "declined":
        await status_when(run, lambda status: status.awaits)
        await run.decline("q", "not now")
    await run.result()
    ((result,), *_) = [message.tool_results for message in await traces(run).check() if message.tool_results]
    assert str(result.result).startswith(text)


async def test_ids_are_made_unique_in_the_run(serve, traces, status_when):
    """A call id that a model uses again is replaced, and kept in the part's `provider_metadata`."""
    planner = ScriptedPlanner([asking(ask), asking(ask), PlanResult.final("done")])
    client = await serve(planner=planner, policy=ASKS)
    run = await client.start("test.agent", "go")
    for wait in ("q", "q#2"):
        await status_when(run, lambda status, wait=wait: [one for one in status.awaits if one.id == wait])
        await run.answer(wait, "yes")
    await run.result()
    first, second = [call for message in await traces(run).check() for call in message.tool_calls]
    assert first.tool_call_id == "c1"
    assert second.provider_metadata == {"tool_call_id": "c1"}


@pytest.mark.parametrize(
    "plan",
    [asking(ask, asks="other"), asking(ask, asks=None), asking(ask, ask), asking(asks="c1", text="no call")],
    ids=["another id", "no id", "the same id twice", "no such call"],
)
async def test_a_message_that_does_not_fit_its_question_is_refused(serve, plan):
    """The message is a planner fault, and the reminder names it."""
    planner = ScriptedPlanner([lambda turn: PlanResult.final("done") if turn.reminders else plan])
    client = await serve(planner=planner, policy=ASKS)
    out = await client.execute("test.agent", "go")
    assert out.text == "done"
    assert "message" in planner.turns[-1].reminders[-1]

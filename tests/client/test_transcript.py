"""Transcripts: a run's history has the transcript that the run's planner gets."""

from datetime import timedelta

import pytest

from sojourn import (
    AwaitClarification,
    PlanResult,
    RunPolicy,
    ToolRequest,
    Toolset,
)
from sojourn.testing.scripted import ScriptedPlanner, Step

NOTE = "test.tools.note"
LARGE = 1_200_000
"""Characters of a result that is too large for a planner's input, so that the planner is given it by reference."""


def make_tools() -> Toolset:
    tools = Toolset("test.tools")

    @tools.tool
    async def note(text: str) -> str:
        """Succeed."""
        return text

    @tools.tool
    async def fill(size: int) -> str:
        """Answer at length."""
        return "x" * size

    return tools


def note(**payload) -> ToolRequest:
    return ToolRequest(name=NOTE, payload=payload)


def call(name: str, **payload) -> PlanResult:
    return PlanResult.calls(ToolRequest(name=name, payload=payload))


def until_noticed(notice: str, plan: PlanResult) -> Step:
    """A step that returns this plan until its notice is in the transcript, and then a call."""
    return lambda turn: call(NOTE, text="a") if notice in str(turn.messages) else plan


STORIES = {
    "plain": [PlanResult.calls(note(text="a"), note(text="b")), PlanResult.final("done")],
    "bad call": [PlanResult.calls(note(text=7), note(text="b")), PlanResult.final("done")],
    "unknown tool": [call("test.tools.nothing"), PlanResult.final("done")],
    "question": [PlanResult.ask(AwaitClarification(id="q", question="which?")), PlanResult.final("done")],
    "large result": [
        call("test.tools.fill", size=LARGE),
        call(NOTE, text="a"),
        PlanResult.final("done"),
    ],
    "asks by a call": [
        call(NOTE, text="a"),
        PlanResult.ask(AwaitClarification(id="q", question="which?")),
        call(NOTE, text="b"),
        PlanResult.final("done"),
    ],
}


STORIES |= {
    "refused plan": [until_noticed("refused", PlanResult()), PlanResult.final("done")],
    "wait": [until_noticed("Waited", PlanResult.wait(timedelta(seconds=1))), PlanResult.final("done")],
}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
async def test_the_history_has_the_transcript(serve, traces, status_when, story):
    """`Run.transcript()`, which needs no worker, equals the query's answer, for open and for closed runs."""
    client = await serve(
        planner=ScriptedPlanner(story), uses=(make_tools(),), policy=RunPolicy(interrupts_allowed=True)
    )
    run = await client.start("test.agent", "go")
    if any(isinstance(step, PlanResult) and step.await_ for step in story):
        await status_when(run, lambda status: status.awaits)
        assert await run.transcript() == await traces(run).transcript()
        await run.answer("q", "this", by="ana")
    await run.result()
    assert await run.transcript() == await traces(run).check()


async def test_the_transcript_after_the_last_allowed_call(serve, traces):
    """The transcript has the notice that only an answer is left, and that answer."""
    story = [PlanResult.calls(note(text="a"), note(text="b")), PlanResult.final("done")]
    client = await serve(
        planner=ScriptedPlanner(story), uses=(make_tools(),), policy=RunPolicy(max_tool_calls=1)
    )
    run = await client.start("test.agent", "go")
    assert (await run.result()).reason == "max_tool_calls"
    assert await run.transcript() == await traces(run).check()
    assert "with what you know" in str(await run.transcript())


async def test_messages_of_a_resume_are_in_the_transcript(serve, traces, status_when):
    """Messages of a resume are in the transcript from their arrival on, not only from the next plan."""
    story = [until_noticed("Waited", PlanResult.wait(timedelta(seconds=1))), PlanResult.final("done")]
    client = await serve(planner=ScriptedPlanner(story), uses=(make_tools(),))
    run = await client.start("test.agent", "go")
    await run.pause("look")
    await status_when(run, lambda status: status.paused)
    await run.resume(messages=["mind the gap"])
    await run.result()
    assert await run.transcript() == await traces(run).check()
    assert "mind the gap" in str(await run.transcript())


async def test_a_terminated_run_has_its_transcript(serve, status_when):
    """The transcript of a terminated run is the same as before, though no worker can be queried."""
    story = [PlanResult.ask(AwaitClarification(id="q", question="which?"))]
    policy = RunPolicy(interrupts_allowed=True)
    client = await serve(planner=ScriptedPlanner(story), uses=(make_tools(),), policy=policy)
    run = await client.start("test.agent", "go")
    await status_when(run, lambda status: status.awaits)
    before = await run.transcript()
    await client.temporal.get_workflow_handle(run.id).terminate()
    assert [message.text for message in before] == ["go", "which?"]
    assert await run.transcript() == before

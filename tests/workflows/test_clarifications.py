"""Answers to questions: typed, declined, expired, early, late, double, oversized; each counts once, none fails the run."""

import asyncio
from datetime import timedelta

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowUpdateFailedError

from sojourn import AwaitClarification, AwaitClosed, InvalidInput, PlanResult, RunPolicy, Toolset
from sojourn.testing.scripted import ScriptedPlanner

ASKS = RunPolicy(interrupts_allowed=True)


def make_tools() -> Toolset:
    tools = Toolset("test.tools")

    @tools.tool
    async def order(kind: str, count: int, express: bool = False) -> str:
        """Order."""
        return f"{count} {kind} {express}"

    return tools


def last_said(turn):
    return PlanResult.final(f"{turn.messages[-1].role}: {turn.messages[-1].text}")


def asking(**fields) -> ScriptedPlanner:
    return ScriptedPlanner([PlanResult.ask(AwaitClarification(id="q", question="?", **fields)), last_said])


@pytest.fixture
async def asked(serve, status_when):
    """A run that asks for two fields of a tool."""
    planner = asking(missing_fields=["kind", "count"], restrict_to_tool="test.tools.order")
    client = await serve(planner=planner, uses=(make_tools(),), policy=ASKS)
    run = await client.start("test.agent", "go")
    await status_when(run, lambda status: status.awaits)
    return run


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"kind": "valve", "count": "many"}, "count must be an integer, not a string"),
        ({"kind": 3, "count": 2}, "kind must be a string, not an integer"),
        (
            {"cuont": 2},
            "there is no field 'cuont', only kind, count; did you mean 'count'?",
        ),
        ('{"Kind": "valve"}', "did you mean 'kind'?"),
        ({"kind": "valve"}, "count is missing"),
        ('{"count": 2}', "kind is missing"),
        ({"kind": "valve", "count": 2, "express": True}, "there is no field 'express', only kind, count"),
        ("", "not empty"),
        ({}, "not empty"),
        ("x" * 64_001, "64,000"),
        ({"kind": "x" * 70_000}, "64,000"),
    ],
    ids=[
        "a text for a number",
        "a number for a text",
        "misspelt",
        "misspelt in a text",
        "without a required field",
        "without a required field in a text",
        "another field of the tool",
        "empty",
        "no field",
        "too long",
        "too long in a field",
    ],
)
async def test_an_answer_by_field_fits_the_tool(asked, answer, why):
    """An answer that does not fit the schema recorded with the question is refused with the reason."""
    with pytest.raises(InvalidInput, match=why):
        await asked.answer("q", answer)
    await asked.answer("q", {"kind": "valve", "count": 2})
    assert (await asked.result()).text == 'user: {"kind": "valve", "count": 2}'


async def test_an_update_with_an_unknown_field_is_refused(asked, traces):
    """A misspelt field of an answer is refused with the fields that there are; the question stays open."""
    handle, answer = traces(asked).handle, {"id": "q", "answer": "two valves"}
    with pytest.raises(WorkflowUpdateFailedError) as caught:
        await handle.execute_update("provide_clarification", {**answer, "byy": 3})
    assert 'provide_clarification does not know "byy"; it takes `id`, `answer`' in str(caught.value.cause)
    assert await handle.execute_update("provide_clarification", {**answer, "by": "ana"}) == "q"
    assert (await asked.result()).text == "user: two valves"


async def test_a_person_may_answer_in_words(asked):
    """A text is taken as it is, for the planner to read."""
    await asked.answer("q", "two valves, please")
    assert (await asked.result()).text == "user: two valves, please"


async def test_an_answer_to_an_unknown_question_is_refused(asked):
    """The client tries again for a moment, since events show a question before it is open, then raises `AwaitClosed`."""
    async with asyncio.timeout(30):
        with pytest.raises(AwaitClosed, match="nothing called p is open; open: q"):
            await asked.answer("p", "x")
    await asked.answer("q", "3 nails")
    assert "3 nails" in (await asked.result()).text


async def test_an_answer_before_its_question_is_not_used(serve, status_when, traces):
    """A signal that arrives before its question is refused, and is not used when a question of that id opens."""
    planned, asks = asyncio.Event(), PlanResult.ask(AwaitClarification(id="q", question="Which?"))

    async def plan(turn):
        await planned.wait()
        return last_said(turn) if turn.run.turn_id == "t2" else asks

    client = await serve(planner=plan, policy=ASKS)
    run = await client.start("test.agent", "go")
    await traces(run).handle.signal("provide_clarification", {"id": "q", "answer": "too soon"})
    status = await status_when(run, lambda status: status.notes)
    assert "the run waits for nothing of this kind" in status.notes[0]
    planned.set()
    await status_when(run, lambda status: [wait.id for wait in status.awaits] == ["q"])
    await run.answer("q", "in time")
    assert (await run.result()).text == "user: in time"
    await traces(run).check()


async def test_an_answer_sent_again_changes_nothing(serve, status_when, traces):
    """The same answer to the same question counts once, whoever repeats it; a different answer is refused."""
    planner = ScriptedPlanner(
        [
            PlanResult.ask(AwaitClarification(id="q", question="?")),
            PlanResult.ask(AwaitClarification(id="r", question="!")),
            last_said,
        ]
    )
    client = await serve(planner=planner, policy=ASKS)
    run = await client.start("test.agent", "go")
    await status_when(run, lambda status: status.awaits)
    for _ in range(3):
        assert await run.answer("q", "s-1") == "q"
    await traces(run).handle.signal("provide_clarification", {"id": "q", "answer": "s-1"})
    with pytest.raises(AwaitClosed):
        await run.answer("q", "s-2")
    await status_when(run, lambda status: status.awaits and status.awaits[0].id == "r")
    await run.answer("r", "end")
    out = await run.result()
    assert (out.text, out.notes) == ("user: end", [])
    assert [e.await_id async for e in run.events() if e.type == "await_answered"] == ["q", "r"]


async def test_a_question_may_be_declined(asked):
    """The planner gets the reason as a system message."""
    await asked.decline("q", "not my decision", by="ana")
    assert (await asked.result()).text == "system: The question was declined: not my decision"


async def test_a_question_that_nobody_answers_expires(serve, traces):
    """With `expires_after` the planner is told that nobody answered, in the same user turn."""
    client = await serve(planner=asking(expires_after=timedelta(seconds=0.3)), policy=ASKS)
    run = await client.start("test.agent", "go")
    assert (await run.result()).text == "system: Nobody answered within 0:00:00.300000."
    with pytest.raises(AwaitClosed):
        await run.answer("q", "late")
    events = [event async for event in run.events()]
    (answered,) = [event for event in events if event.type == "await_answered"]
    assert (answered.await_id, answered.code) == ("q", "expired")
    assert events[-1].turn_id == "t1"
    await traces(run).check()


async def test_a_flood_of_bad_signals_harms_nothing(serve, status_when, traces):
    """After 300 bad signals, some with ids of 5 KB, the notes are bounded and the right answer still counts."""
    client = await serve(planner=asking(), policy=ASKS)
    run = await client.start("test.agent", "go")
    await status_when(run, lambda status: status.awaits)
    handle = traces(run).handle
    bad = [
        ("provide_clarification", {"id": "'; $(reboot) `x` \\" * 250, "answer": "x"}),
        ("provide_clarification", {"answer": 3.5}),
        ("provide_clarification", [1, 2]),
        ("provide_confirmation", {"approved": "yes"}),
        ("provide_tool_results", {"results": [None] * 50}),
        ("resume", {"messages": 3}),
        ("pause", {"reason": "x" * 5_000}),
        ("stop_asking", {"tools": "*"}),
    ]
    for _ in range(5):
        await asyncio.gather(*(handle.signal(*bad[n % len(bad)]) for n in range(60)))
        await run.status()  # the run has handled these: not all signals come in one workflow task
    status = await status_when(run, lambda status: len(status.notes) == 20)
    assert max(map(len, status.notes)) < 600
    await run.answer("q", "fine")
    out = await run.result()
    assert out.text == "user: fine"
    assert await traces(run).count(EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED) == 300
    await traces(run).check()


async def test_an_answer_of_10_megabytes_is_refused(serve, status_when, traces):
    """An answer that is too large for a payload is refused at once, not as by a busy server, and the question stays open."""
    client = await serve(planner=asking(), policy=ASKS)
    run = await client.start("test.agent", "go")
    await status_when(run, lambda status: status.awaits)
    for size in (2_500_000, 10_000_000):
        with pytest.raises(InvalidInput, match="more than can be sent at once, at most 1,900,000"):
            await run.answer("q", "x" * size)
    with pytest.raises(InvalidInput):
        await run.answer("q", "x" * 1_500_000)
    await run.answer("q", "fine")
    assert (await run.result()).text == "user: fine"
    await traces(run).check()

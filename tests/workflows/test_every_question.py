"""Whatever a planner asks for, a run waits for it, and its next plan reads the answer."""

from typing import get_args

import pytest

from sojourn import Case, PlanResult, RunPolicy, flow
from sojourn.contracts.awaits import PlannerQuestion
from sojourn.core.awaits.kinds import KINDS
from sojourn.testing.scripted import ScriptedPlanner
from tests.waits import SAMPLES

QUESTIONS = get_args(PlannerQuestion) or (PlannerQuestion,)


def last_said(turn):
    return PlanResult.final(f"{turn.messages[-1].role}: {turn.messages[-1].text}")


@pytest.mark.parametrize("record", QUESTIONS, ids=lambda record: record.kind)
@pytest.mark.parametrize("channel", ["update", "signal"])
async def test_a_run_waits_for_what_its_planner_asks(serve, status_when, traces, record, channel):
    """A question of each kind is open until its message comes, by update or signal, and the planner then reads a text."""
    sample, kind = SAMPLES[record], KINDS[record]
    planner = ScriptedPlanner([PlanResult.ask(sample.wait), last_said])
    client = await serve(planner=planner, policy=RunPolicy(interrupts_allowed=True))
    run = await client.start("test.agent", "go")
    (wait,) = (await status_when(run, lambda status: status.awaits)).awaits
    assert wait == sample.wait
    handle = traces(run).handle
    if channel == "update":
        assert await handle.execute_update(kind.name, sample.answer) == "w"
    else:
        await handle.signal(kind.name, sample.answer)
    answered = [event.text async for event in run.events() if event.type == "await_answered"]
    assert (await run.result()).text == f"user: {answered[0]}"


@pytest.mark.parametrize("record", QUESTIONS, ids=lambda record: record.kind)
async def test_a_flow_asks_for_it(serve, status_when, traces, record):
    """A flow asks a question of each kind twice, and reads both answers as texts."""
    sample, kind = SAMPLES[record], KINDS[record]

    @flow
    def curious(case: Case) -> str:
        return f"{case.ask(sample.wait)}, {case.ask(sample.wait)}"

    client = await serve(planner=curious, policy=RunPolicy(interrupts_allowed=True))
    run = await client.start("test.agent", "go")
    for message, await_id in ((sample.answer, "w"), (sample.other, "w#2")):
        await status_when(run, lambda status, await_id=await_id: [w.id for w in status.awaits] == [await_id])
        await traces(run).handle.execute_update(kind.name, {**message, "id": await_id})
    answered = [event.text async for event in run.events() if event.type == "await_answered"]
    assert (await run.result()).text == ", ".join(answered)

"""`run.until_waiting()` returns the open waits, or says how the run ended."""

from datetime import timedelta

import pytest

from sojourn import AwaitClarification, PlanResult, RunPolicy
from sojourn.errors import AwaitClosed, RunFailed
from sojourn.testing import ScriptedPlanner

MAY_ASK = RunPolicy(interrupts_allowed=True)
ASKS = PlanResult.ask(AwaitClarification(question="Which one?"))


async def test_the_waits_of_a_run(serve):
    """The wait is returned as soon as it is open, and is enough to answer it."""

    def step(turn) -> PlanResult:
        return ASKS if len(turn.messages) == 1 else PlanResult.final("so be it")

    client = await serve(planner=ScriptedPlanner([step, step]), policy=MAY_ASK)
    run = await client.start("test.agent", "hello")
    (question,) = await run.until_waiting()
    assert question.question == "Which one?"
    await run.answer(question, "the left one")
    with pytest.raises(AwaitClosed, match="ended without waiting, and answered 'so be it'"):
        await run.until_waiting()


async def test_a_run_that_fails_first(serve):
    """The error is that of the run."""
    client = await serve(planner=ScriptedPlanner([PlanResult.fail("no such site")]))
    run = await client.start("test.agent", "hello")
    with pytest.raises(RunFailed, match="no such site"):
        await run.until_waiting()


async def test_a_run_that_waits_for_nobody(serve):
    """At the end of the time, the error says what the run does."""
    client = await serve(planner=ScriptedPlanner([PlanResult.wait(timedelta(days=1))]))
    run = await client.start("test.agent", "hello")
    with pytest.raises(TimeoutError, match=f"{run.id} waited for nobody within 0:00:00.5.*: it is"):
        await run.until_waiting(timeout=timedelta(seconds=0.5))

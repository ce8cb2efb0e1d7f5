"""A run's clock is moved by the server's own time skipping."""

from datetime import timedelta

import pytest

from sojourn import AwaitClarification, PlanResult, RunPolicy
from sojourn.errors import AwaitClosed, InvalidInput, RunNotFound
from sojourn.testing import ScriptedPlanner, skip_time

MAY_ASK = RunPolicy(interrupts_allowed=True)
DEADLINE = AwaitClarification(question="Which one?", expires_after=timedelta(days=21))


def after(turn) -> PlanResult:
    """Ask once, then answer with what came of it."""
    told = [message.text for message in turn.messages if message.role == "system"]
    return PlanResult.final(told[-1]) if told else PlanResult.ask(DEADLINE)


async def test_a_question_expires_after_three_weeks(serve):
    """After two weeks the question is still open; after four the planner is told that nobody answered."""
    client = await serve(planner=ScriptedPlanner([after, after]), policy=MAY_ASK)
    run = await client.start("test.agent", "hello")
    (question,) = await run.until_waiting()
    await skip_time(run, timedelta(days=14))
    assert [wait.id for wait in (await run.status()).awaits] == [question.id]
    await skip_time(run, timedelta(days=14))
    assert "Nobody answered within 21 days" in (await run.result()).text


async def test_a_sleep_of_a_year(serve):
    """A planner that sleeps for a year is asked again at once."""
    steps = [lambda turn: PlanResult.final("a year later") if turn_count(turn) else PlanResult.wait(YEAR)]
    script = ScriptedPlanner(steps)

    def turn_count(_turn) -> bool:
        return len(script.turns) > 1

    client = await serve(planner=script)
    run = await client.start("test.agent", "hello")
    await skip_time(run, YEAR + timedelta(days=1))
    assert (await run.result()).text == "a year later"


YEAR = timedelta(days=365)


async def test_what_cannot_be_skipped(serve):
    """An ended run, an unknown run and a duration of nothing are refused, each by a sentence."""
    client = await serve(planner=ScriptedPlanner([PlanResult.final("done")]))
    run = await client.start("test.agent", "hello")
    await run.result()
    with pytest.raises(AwaitClosed, match="has ended"):
        await skip_time(run, YEAR)
    with pytest.raises(RunNotFound):
        await skip_time(client.get_run("no-such-run"), YEAR)
    with pytest.raises(InvalidInput, match="above zero"):
        await skip_time(run, timedelta(0))

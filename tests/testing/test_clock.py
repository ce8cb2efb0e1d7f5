"""A run's clock is moved by the server's own time skipping."""

from datetime import UTC, datetime, timedelta

import pytest

from sojourn import Agent, App, AwaitClarification, PlanResult, Run, RunPolicy, Turn
from sojourn.errors import AwaitClosed, InvalidInput, RunNotFound
from sojourn.testing import ScriptedPlanner, skip_time
from tests.workflows.test_endless import short

__all__ = ["short"]

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


async def test_the_clock_of_a_run_that_goes_on(short, serve):
    """A run that goes on in several executions meanwhile moves as far as asked, and no further."""

    async def sleep_again(turn: Turn) -> PlanResult:
        return PlanResult.wait(timedelta(days=1))

    policy = RunPolicy(max_tool_rounds=1_000, time_budget=timedelta(days=1_000))
    client = await serve(App(agents=[Agent("test.agent", planner=sleep_again, policy=policy)]))
    run = await client.start("test.agent", "go")
    for _ in range(2):
        before = await time_of(run)
        await skip_time(run, timedelta(days=15, hours=12))
        assert timedelta(days=15, hours=12) <= await time_of(run) - before < timedelta(days=15, hours=13)
    kinds = [event.type async for event in run.events(follow=False)]
    assert kinds.count("run_continued") >= 4
    await run.cancel()


async def time_of(run: Run) -> datetime:
    """The run's own time."""
    described = await run.client.temporal.get_workflow_handle(run.id).describe()
    info = described.raw_description.workflow_extended_info.time_skipping_info
    return info.current_time.ToDatetime(UTC) if info.HasField("current_time") else datetime.now(UTC)

"""A planner that says when to try again has 20 attempts, not 5, so that its run survives an outage of the provider."""

from datetime import timedelta

import pytest
from temporalio.exceptions import ApplicationError

from sojourn import PlanResult, RateLimited, RunFailed, RunPolicy, ToolUnavailable
from sojourn.contracts.dispatch import ACTIVITY_ATTEMPTS

SOON = timedelta(milliseconds=5)


def named(**fields):
    """An error as a model's planner raises it."""
    return ApplicationError("it is away", type="ModelUnavailable", **fields)


@pytest.mark.parametrize(
    "error",
    [
        named(next_retry_delay=SOON),
        RateLimited("slow down", retry_after=SOON),
        ToolUnavailable("it is away", retry_after=SOON),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_planner_that_says_when_outlasts_five_attempts(serve, traces, error):
    """Twelve failures with a delay do not fail the run when the thirteenth attempt plans."""
    attempts = []

    async def plan(turn):
        attempts.append(turn)
        if len(attempts) <= 12:
            raise error
        return PlanResult.final("back")

    client = await serve(planner=plan)
    run = await client.start("test.agent", "go")
    assert (await run.result()).text == "back"
    assert len(attempts) == 13
    await traces(run).check()


async def test_attempts_with_a_delay_end_too(serve):
    """After the last attempt the run fails with that attempt's reason and type."""
    attempts = []

    async def plan(turn):
        attempts.append(turn)
        raise named(next_retry_delay=SOON)

    client = await serve(planner=plan)
    with pytest.raises(RunFailed, match=r"the planner of test\.agent failed: .*it is away") as failed:
        await client.execute("test.agent", "go")
    assert failed.value.code == "ModelUnavailable"
    assert len(attempts) == ACTIVITY_ATTEMPTS


async def test_a_non_retryable_error_is_not_retried(serve):
    """A delay in the error changes nothing."""
    attempts = []

    async def plan(turn):
        attempts.append(turn)
        raise named(next_retry_delay=SOON, non_retryable=True)

    client = await serve(planner=plan)
    with pytest.raises(RunFailed):
        await client.execute("test.agent", "go")
    assert len(attempts) == 1


async def test_a_first_turn_does_not_wait_beyond_the_time_budget(serve, traces):
    """The last turn follows at once, though the run does not know its budget before the first plan."""
    attempts = []

    async def plan(turn):
        attempts.append(turn)
        if turn.finalize:
            return PlanResult.final(f"no answer: {turn.finalize.reason}")
        raise named(next_retry_delay=timedelta(hours=1))

    client = await serve(planner=plan, policy=RunPolicy(time_budget=timedelta(minutes=20)))
    run = await client.start("test.agent", "go")
    assert (await run.result()).text == "no answer: time_budget"
    assert len(attempts) == 2
    await traces(run).check()


async def test_the_final_turn_of_a_used_up_budget_does_not_wait(serve):
    """When the provider asks for another hour, the run ends at once, with the error in its answer."""
    attempts = []

    async def plan(turn):
        attempts.append(turn)
        raise named(next_retry_delay=timedelta(hours=1))

    client = await serve(planner=plan, policy=RunPolicy(time_budget=timedelta(minutes=20)))
    output = await client.execute("test.agent", "go")
    assert "it is away" in output.text
    assert len(attempts) == 2


async def test_a_retry_after_that_is_no_timedelta_is_ignored(serve):
    """Exceptions of other libraries have a number of seconds."""
    attempts = []

    class OddError(Exception):
        retry_after = 3600.0

    async def plan(turn):
        attempts.append(turn)
        if len(attempts) == 1:
            raise OddError("again")
        return PlanResult.final("back")

    client = await serve(planner=plan)
    assert (await client.execute("test.agent", "go")).text == "back"

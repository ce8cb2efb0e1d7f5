"""A planner that says when to try again has 20 attempts, not 5, so that its run survives an outage of the provider."""

import uuid
from collections import Counter
from datetime import timedelta

import pytest
from temporalio.exceptions import ApplicationError

from sojourn import Agent, App, Client, PlanResult, RateLimited, RunFailed, RunPolicy, ToolUnavailable, Worker
from sojourn.contracts.dispatch import ACTIVITY_ATTEMPTS

SOON = timedelta(milliseconds=5)


def named(**fields):
    """An error as a model's planner raises it."""
    return ApplicationError("it is away", type="ModelUnavailable", **fields)


AWAY = {
    "ApplicationError": named(next_retry_delay=SOON),
    "RateLimited": RateLimited("slow down", retry_after=SOON),
    "ToolUnavailable": ToolUnavailable("it is away", retry_after=SOON),
    "for ever": named(next_retry_delay=SOON),
}
FAILURES = 6
"""More than the attempts of a planner whose errors have no delay."""


@pytest.fixture(scope="module")
async def outages(temporal_address):
    """A run for each error of `AWAY`, all at once since Temporal takes a second for each retry, and their attempts."""
    attempts = Counter[str]()

    async def plan(turn):
        outage = turn.messages[0].text
        attempts[outage] += 1
        if attempts[outage] <= FAILURES or outage == "for ever":
            raise AWAY[outage]
        return PlanResult.final("back")

    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    async with Worker(App(agents=[Agent("test.agent", planner=plan)]), client):
        yield {outage: await client.start("test.agent", outage) for outage in AWAY}, attempts


@pytest.mark.parametrize("outage", list(AWAY)[:3])
async def test_a_planner_that_says_when_outlasts_five_attempts(outages, traces, outage):
    """Six failures with a delay do not fail the run when the seventh attempt plans."""
    runs, attempts = outages
    assert (await runs[outage].result()).text == "back"
    assert attempts[outage] == FAILURES + 1
    await traces(runs[outage]).check()


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


async def test_attempts_with_a_delay_end_too(outages):
    """After the last attempt the run fails with that attempt's reason and type."""
    runs, attempts = outages
    with pytest.raises(RunFailed, match=r"the planner of test\.agent failed: .*it is away") as failed:
        await runs["for ever"].result()
    assert failed.value.code == "ModelUnavailable"
    assert attempts["for ever"] == ACTIVITY_ATTEMPTS

"""Retry now: what waits for its next attempt begins at once, and remains the attempt that it was."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from sojourn import Agent, App, PlanResult, RateLimited, Retry, ToolCallMeta, Toolset, Turn
from sojourn.errors import RunNotFound

LONG = timedelta(seconds=30)
"""The longest backoff of a call."""

tools = Toolset("later.tools", description="Work")
planned = list[int]()
"""The number of attempts at each plan."""


@tools.tool(retry=Retry(max_attempts=3))
async def fetch(meta: ToolCallMeta) -> int:
    """Fetch the second time, and return the attempt."""
    if meta.attempt == 1:
        raise RateLimited("too many requests", retry_after=LONG)
    return meta.attempt


class BusyError(Exception):
    """A provider that says when to come back."""

    retry_after = timedelta(minutes=10)


async def plan(turn: Turn) -> PlanResult:
    """Fail the first time, or call the tool, as the message says."""
    if turn.messages[0].text == "plan":
        planned.append(1)
        if len(planned) == 1:
            raise BusyError("come back later")
        return PlanResult.final("planned")
    if not turn.tool_results:
        return PlanResult.calls(fetch.call())
    return PlanResult.final(f"attempt {turn.tool_results[0].result}")


@pytest.fixture(autouse=True)
def _new_plans() -> Iterator[None]:
    planned.clear()
    yield
    planned.clear()


@pytest.fixture
def waits_long(until):
    """Wait until a run's activity waits for an attempt that is due in more than 20 s; return it."""

    async def wait(run):
        async def pending():
            described = await run.client.temporal.get_workflow_handle(run.id).describe()
            found = described.raw_description.pending_activities
            now = datetime.now(UTC)
            return [
                each
                for each in found
                if each.attempt == 2
                and each.next_attempt_schedule_time.ToDatetime(UTC) - now > timedelta(seconds=20)
            ]

        await until(pending)
        return (await pending())[0]

    return wait


@pytest.fixture
async def client(serve):
    """A client of a worker of the agent."""
    return await serve(App(agents=[Agent("later.agent", planner=plan, uses=[tools])]))


@pytest.mark.parametrize(("text", "answer"), [("plan", "planned"), ("call", "attempt 2")])
async def test_an_attempt_begins_without_the_rest_of_its_backoff(client, waits_long, text, answer):
    """A plan and a call end within seconds, the attempt keeps its number, and nothing stays paused; a second request finds nothing."""
    run = await client.start("later.agent", text)
    pending = await waits_long(run)
    assert await run.retry_now() == [pending.activity_id]
    assert (await run.result()).text == answer
    assert await run.retry_now() == []
    assert datetime.now(UTC) - pending.last_attempt_complete_time.ToDatetime(UTC) < timedelta(seconds=20)


async def test_a_retry_whose_process_was_lost_is_done_by_the_next(client, waits_long, monkeypatch):
    """A process that is killed between the two requests leaves the activity paused; the next request resumes it."""
    run = await client.start("later.agent", "call")
    pending = await waits_long(run)

    class KilledError(Exception):
        """The process ends here."""

    async def kill(*_, **__):
        raise KilledError

    service = client.temporal.workflow_service
    with monkeypatch.context() as patch:
        patch.setattr(type(service), "unpause_activity", kill)
        with pytest.raises(KilledError):
            await run.retry_now()
    described = await client.temporal.get_workflow_handle(run.id).describe()
    assert [each.paused for each in described.raw_description.pending_activities] == [True]
    assert await run.retry_now() == [pending.activity_id]
    assert (await run.result()).text == "attempt 2"


async def test_a_run_that_there_is_not_has_nothing_to_retry(client):
    """It is the error of every other request."""
    with pytest.raises(RunNotFound):
        await client.get_run("nobody-started-this").retry_now()

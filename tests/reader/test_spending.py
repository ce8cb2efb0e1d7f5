"""What runs used: added up by agent and day, once for all who see the same runs, and within bounds."""

import uuid

import pytest

from sojourn import Agent, App, AwaitClarification, Client, PlanResult, Principal, RunPolicy, Turn
from sojourn.client.listing import Selection
from sojourn.contracts.plan import Usage
from sojourn.reader import Reader, SpendingReader, spending
from tests.console.counting import Asked

USED = Usage(input_tokens=100, output_tokens=10, cost=0.5, model="small")


async def plan(turn: Turn) -> PlanResult:
    """Answer, fail or ask, as the message says."""
    match turn.messages[0].text:
        case "fail":
            return PlanResult.fail("no")
        case "ask":
            made = PlanResult.ask(AwaitClarification(question="?"))
        case _:
            made = PlanResult.final("done")
    return made.model_copy(update={"usage": USED})


@pytest.fixture
async def used(serve, until, temporal_address, status_when):
    """A reader of its own, what it asks, and the tenant of three runs that ended and one that waits."""
    tenant = f"acme{uuid.uuid4().hex[:8]}"
    agents = [
        Agent(f"{tenant}.{name}", planner=plan, policy=RunPolicy(interrupts_allowed=True))
        for name in ("clerk", "desk")
    ]
    client = await serve(App(agents=agents))
    ana = Principal(subject="ana", tenant=tenant)
    for agent, word in zip((0, 0, 1, 1), ("answer", "fail", "answer", "ask"), strict=True):
        run = await client.start(agents[agent].id, word, principal=ana)
        await status_when(run, lambda status: status.closed_at or status.awaits)

    async def is_listed() -> bool:
        runs = [run async for run in client.list_runs(tenant=tenant)]
        return sorted(run.status for run in runs) == ["completed", "completed", "failed", "waiting"]

    await until(is_listed)
    async with Client.connect(temporal_address, task_queue=client.task_queue) as own:
        yield Reader(own), Asked(own), tenant


async def test_what_runs_used_is_added_up_by_agent_and_day(used):
    """Runs that failed are counted as such, an open run has what it used up to now, and each ended run is read once."""
    reader, asked, tenant = used
    recent = SpendingReader(reader)
    found = await recent.recent(Selection(tenant=tenant), patience=30.0)
    assert found is not None
    assert found.is_whole
    today = found.days[-1]
    assert len(found.days) == 7
    clerk, desk = (found.agents[f"{tenant}.{name}"][today] for name in ("clerk", "desk"))
    assert (clerk.runs, clerk.failed, clerk.spending.cost, clerk.spending.unread) == (2, 1, 0.5, [])
    assert (desk.runs, desk.failed, desk.spending.cost, desk.spending.unread) == (2, 0, 1.0, [])
    assert found.counts[today] == 4
    asked.count.clear()
    assert await recent.recent(Selection(tenant=tenant), patience=30.0) is found
    recent._sums.clear()
    await recent.recent(Selection(tenant=tenant), patience=30.0)
    assert asked.count["history"] == 0
    assert asked.count["list_workflow_executions"] == 1


async def test_more_runs_than_are_read_are_counted_by_the_store(used, monkeypatch):
    """The newest are added up; the days have all runs, and the reading says that it is not whole."""
    reader, asked, tenant = used
    monkeypatch.setattr(spending, "MAX_RUNS", 3)
    found = await SpendingReader(reader).recent(Selection(tenant=tenant), patience=30.0)
    assert found is not None
    assert not found.is_whole
    assert sum(each.runs for days in found.agents.values() for each in days.values()) == 3
    assert found.counts[found.days[-1]] == 4
    assert asked.count["count_workflow_executions"] == 7


async def test_what_takes_too_long_comes_to_the_next_caller(used):
    """Who does not wait gets nothing, and the reading continues for the next."""
    reader, asked, tenant = used
    recent = SpendingReader(reader)
    asked.holds_lists = True
    assert await recent.recent(Selection(tenant=tenant), patience=0.0) is None
    asked.holds_lists = False
    assert await recent.recent(Selection(tenant=tenant), patience=30.0) is not None
    assert asked.count["list_workflow_executions"] == 1

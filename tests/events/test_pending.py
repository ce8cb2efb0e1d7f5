"""What no history holds of calls in flight: each told once, of each call, and nothing asked when there is none."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.converter import DataConverter

from sojourn import ToolRequest, ToolResult
from sojourn.contracts.event import Event, ToolEndEvent, ToolStartEvent
from sojourn.events import pending as module
from sojourn.events.pending import PendingActivities

START = datetime(2027, 1, 4, tzinfo=UTC)
SCHEDULED = PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
STARTED = PendingActivityState.PENDING_ACTIVITY_STATE_STARTED


class Server:
    """A Temporal client of one run, whose pending activities are set; counts how often it was asked for them."""

    data_converter = DataConverter.default

    def __init__(self) -> None:
        self.pending: list[PendingActivityInfo] = []
        self.asked = 0

    def get_workflow_handle(self, _run_id: str) -> "Server":
        return self

    async def describe(self) -> Any:
        self.asked += 1
        return SimpleNamespace(raw_description=SimpleNamespace(pending_activities=self.pending))


def attempted(id: str, attempt: int, state: PendingActivityState.ValueType) -> PendingActivityInfo:
    made = PendingActivityInfo(activity_id=id, attempt=attempt, state=state)
    made.activity_type.name = "ExecuteToolActivity"
    made.last_failure.message = f"{id} failed"
    made.scheduled_time.FromDatetime(START)
    return made


def starts(id: str) -> ToolStartEvent:
    call = ToolRequest(name="test.tools.note", tool_call_id=id)
    return ToolStartEvent(run_id="r", event_id=id, time=START, call=call)


def ends(id: str) -> ToolEndEvent:
    result = ToolResult(name="test.tools.note", tool_call_id=id)
    return ToolEndEvent(run_id="r", event_id=f"{id}-end", time=START, result=result, duration=timedelta(0))


@pytest.fixture
async def looking(monkeypatch) -> AsyncIterator[Callable[[], tuple[Server, PendingActivities, list[Event]]]]:
    """A server, who looks at its pending activities without a pause, and what is told of them."""
    monkeypatch.setattr(module, "INTERVAL", 0.0)
    made: list[PendingActivities] = []

    def make() -> tuple[Server, PendingActivities, list[Event]]:
        server, told = Server(), []

        async def tell(event: Event) -> None:
            told.append(event)

        made.append(PendingActivities(server, "r", tell))  # pyright: ignore[reportArgumentType]
        return server, made[-1], told

    yield make
    for each in made:
        await each.close()


async def looks(server: Server, count: int, until: Callable[..., Any]) -> None:
    """Wait for some further looks."""
    before = server.asked
    await until(lambda: server.asked >= before + count)


async def test_each_attempt_of_each_call_is_told_once(looking, until):
    """Of two calls that fail alike both are told, however often they are looked at; then a further attempt of one."""
    server, pending, told = looking()
    server.pending = [attempted(id, 2, SCHEDULED) for id in ("c1", "c2")]
    for id in ("c1", "c2"):
        pending.feed(starts(id))
    await looks(server, 3, until)
    assert sorted((event.tool_call_id, event.attempt) for event in told) == [("c1", 2), ("c2", 2)]
    assert [event.error for event in told] == [f"{event.tool_call_id} failed" for event in told]
    server.pending[0] = attempted("c1", 3, SCHEDULED)
    await looks(server, 3, until)
    assert [(event.tool_call_id, event.attempt) for event in told[2:]] == [("c1", 3)]


@pytest.mark.parametrize(("state", "due"), [(SCHEDULED, START), (STARTED, None)], ids=["waits", "runs"])
async def test_only_an_attempt_that_waits_is_due(state, due, looking, until):
    """The time of one that runs already lies in the past, and is no time to wait for."""
    server, pending, told = looking()
    server.pending = [attempted("c1", 2, state)]
    pending.feed(starts("c1"))
    await looks(server, 2, until)
    assert [event.due for event in told] == [due]


async def test_nothing_is_asked_once_the_calls_have_ended(looking, until):
    """A run that waits for a person costs its server nothing, and what comes late of a call is told no more."""
    server, pending, told = looking()
    pending.feed(starts("c1"))
    pending.feed(starts("c2"))
    pending.feed(ends("c1"))
    server.pending = [attempted("c1", 2, SCHEDULED)]
    await looks(server, 2, until)
    pending.feed(ends("c2"))
    await until(lambda: pending._task is None)
    before = server.asked
    for _ in range(20):
        await asyncio.sleep(0)
    assert server.asked == before
    assert told == []
    pending.feed(starts("c3"))
    await looks(server, 1, until)


async def test_a_run_that_waits_is_asked_about_ever_less(looking, until, monkeypatch):
    """While none of the calls is at a worker the pauses grow, to a bound; an event, or work, ends that."""
    server, pending, _ = looking()
    intervals = 0
    sleep = asyncio.sleep

    async def count(seconds: float) -> None:
        nonlocal intervals
        intervals += seconds == 0.0
        await sleep(seconds)

    monkeypatch.setattr(module.asyncio, "sleep", count)
    pending.feed(starts("c1"))
    await until(lambda: intervals >= 10 * module.LONGEST_PAUSE)
    assert 10 <= server.asked <= intervals // module.LONGEST_PAUSE + 6
    server.pending = [attempted("c1", 2, STARTED)]
    before, server.asked = intervals, 0
    pending.feed(starts("c2"))
    await until(lambda: server.asked >= 20)
    assert intervals - before >= server.asked
    await until(lambda: intervals - before >= 100)
    assert server.asked >= 90

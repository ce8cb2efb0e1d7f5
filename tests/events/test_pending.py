"""Pending activities: one event for each attempt of each call, and no request while no call is in flight."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.converter import DataConverter

from sojourn import ToolRequest, ToolResult
from sojourn.contracts.event import Event, PlanStartedEvent, ToolEndEvent, ToolStartEvent
from sojourn.events import pending as module
from sojourn.events.pending import PendingActivities, retrying

START = datetime(2027, 1, 4, tzinfo=UTC)
SCHEDULED = PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
STARTED = PendingActivityState.PENDING_ACTIVITY_STATE_STARTED


class Server:
    """A Temporal client of one run with the pending activities that a test sets; counts the requests for them."""

    data_converter = DataConverter.default

    def __init__(self) -> None:
        self.pending: list[PendingActivityInfo] = []
        self.requests = 0

    def get_workflow_handle(self, _run_id: str) -> "Server":
        return self

    async def describe(self) -> Any:
        self.requests += 1
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
async def make_pending(
    monkeypatch,
) -> AsyncIterator[Callable[[], tuple[Server, PendingActivities, list[Event]]]]:
    """Make a server, a `PendingActivities` that checks it without pauses, and the list of its events."""
    monkeypatch.setattr(module, "INTERVAL", 0.0)
    made: list[PendingActivities] = []

    def make() -> tuple[Server, PendingActivities, list[Event]]:
        server, events = Server(), []

        async def tell(event: Event) -> None:
            events.append(event)

        made.append(PendingActivities(server, "r", tell))  # pyright: ignore[reportArgumentType]
        return server, made[-1], events

    yield make
    for each in made:
        await each.close()


async def further_requests(server: Server, count: int, until: Callable[..., Any]) -> None:
    """Wait until the server has had `count` further requests."""
    before = server.requests
    await until(lambda: server.requests >= before + count)


async def test_each_attempt_of_each_call_has_one_event(make_pending, until):
    """Two calls that fail alike have one event each, however often they are checked; a further attempt of one has another."""
    server, pending, events = make_pending()
    server.pending = [attempted(id, 2, SCHEDULED) for id in ("c1", "c2")]
    for id in ("c1", "c2"):
        pending.feed(starts(id))
    await further_requests(server, 3, until)
    assert sorted((event.tool_call_id, event.attempt) for event in events) == [("c1", 2), ("c2", 2)]
    assert [event.error for event in events] == [f"{event.tool_call_id} failed" for event in events]
    server.pending[0] = attempted("c1", 3, SCHEDULED)
    await further_requests(server, 3, until)
    assert [(event.tool_call_id, event.attempt) for event in events[2:]] == [("c1", 3)]


@pytest.mark.parametrize(("state", "due"), [(SCHEDULED, START), (STARTED, None)], ids=["waits", "runs"])
async def test_only_an_attempt_that_waits_is_due(state, due, make_pending, until):
    """An attempt that already runs has no due time, since its scheduled time lies in the past."""
    server, pending, events = make_pending()
    server.pending = [attempted("c1", 2, state)]
    pending.feed(starts("c1"))
    await further_requests(server, 2, until)
    assert [event.due for event in events] == [due]


async def test_an_event_has_the_time_of_its_attempt(make_pending, until):
    """A retry has the time at which the attempt before it failed, and a note that of its heartbeat; neither has that of the request."""
    server, pending, events = make_pending()
    made = attempted("c1", 2, STARTED)
    made.last_attempt_complete_time.FromDatetime(START + timedelta(seconds=1))
    made.last_heartbeat_time.FromDatetime(START + timedelta(seconds=2))
    made.heartbeat_details.payloads.extend(await DataConverter.default.encode([{"note": "half"}]))
    server.pending = [made]
    pending.feed(starts("c1"))
    await until(lambda: len(events) == 2)
    assert [(event.type, (event.time - START).total_seconds()) for event in events] == [
        ("tool_retry", 1),
        ("tool_update", 2),
    ]


async def test_nothing_is_asked_once_the_calls_have_ended(make_pending, until):
    """After the last call has ended there are no requests; an activity of an ended call has no event."""
    server, pending, events = make_pending()
    pending.feed(starts("c1"))
    pending.feed(starts("c2"))
    pending.feed(ends("c1"))
    server.pending = [attempted("c1", 2, SCHEDULED)]
    await further_requests(server, 2, until)
    pending.feed(ends("c2"))
    await until(lambda: pending._task is None)
    before = server.requests
    for _ in range(20):
        await asyncio.sleep(0)
    assert server.requests == before
    assert events == []
    pending.feed(starts("c3"))
    await further_requests(server, 1, until)


async def test_requests_for_a_run_that_waits_become_rarer(make_pending, until, monkeypatch):
    """While no call is at a worker the pauses between requests grow, up to a bound; an event, or a call at a worker, ends that."""
    server, pending, _ = make_pending()
    intervals = 0
    sleep = asyncio.sleep

    async def count(seconds: float) -> None:
        nonlocal intervals
        intervals += seconds == 0.0
        await sleep(seconds)

    monkeypatch.setattr(module.asyncio, "sleep", count)
    pending.feed(starts("c1"))
    await until(lambda: intervals >= 10 * module.LONGEST_PAUSE)
    assert 10 <= server.requests <= intervals // module.LONGEST_PAUSE + 6
    server.pending = [attempted("c1", 2, STARTED)]
    before, server.requests = intervals, 0
    pending.feed(starts("c2"))
    await until(lambda: server.requests >= 20)
    assert intervals - before >= server.requests
    await until(lambda: intervals - before >= 100)
    assert server.requests >= 90


async def test_each_plan_has_attempts_of_its_own(make_pending, until):
    """The second attempt of a later plan is told too, although an earlier plan had a second attempt."""
    server, pending, events = make_pending()
    server.pending = [attempted("1", 2, SCHEDULED)]
    server.pending[0].activity_type.name = "PlanActivity"
    pending.feed(PlanStartedEvent(run_id="r", event_id="1", time=START))
    await further_requests(server, 3, until)
    assert [(event.tool_call_id, event.attempt) for event in events] == [("", 2)]
    pending.feed(PlanStartedEvent(run_id="r", event_id="2", time=START))
    await further_requests(server, 3, until)
    assert [(event.tool_call_id, event.attempt) for event in events] == [("", 2), ("", 2)]


async def test_a_slow_plan_has_a_hint():
    """A plan at work for ten seconds is told with its duration, one that just began is not, nor is a call."""
    slow, quick, call = (attempted(id, 1, STARTED) for id in ("1", "2", "c1"))
    for each in (slow, quick, call):
        each.ClearField("last_failure")
        each.last_started_time.FromDatetime(datetime.now(UTC) - timedelta(minutes=1))
    quick.last_started_time.FromDatetime(datetime.now(UTC) + timedelta(minutes=1))
    slow.activity_type.name = quick.activity_type.name = "PlanActivity"
    (hint,) = await retrying([slow, quick, call], DataConverter.default, {})
    assert re.fullmatch(r"plan: attempt 1 is under way for \d+ s", hint)


async def test_an_attempt_that_was_cut_off_says_so() -> None:
    """The failure of an attempt whose worker stopped at once has no text; the line has a reason all the same."""
    call = attempted("c1", 2, SCHEDULED)
    call.last_failure.message = ""
    call.last_failure.canceled_failure_info.SetInParent()
    (line,) = await retrying([call], DataConverter.default, {})
    assert line.endswith("; the last failed: it was cut off, as by a worker that stopped at once")

"""Schedules: runs that start, and messages that a conversation gets, again and again."""

import asyncio
import uuid
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from temporalio.client import (
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleIntervalSpec,
    ScheduleSpec,
    WorkflowFailureError,
)

from sojourn import (
    AwaitClarification,
    InvalidInput,
    Message,
    PlanResult,
    RunNotFound,
    RunPolicy,
    RunPolicyOverride,
    SessionPolicy,
)
from sojourn.client.listing import message_of
from sojourn.errors import ScheduleAlreadyExists, ScheduleNotFound

DAY = timedelta(days=1)


async def plan(turn) -> PlanResult:
    said = [message.text for message in turn.messages if message.role == "user"]
    if said[-1] == "ask":
        return PlanResult.ask(AwaitClarification(question="which?"))
    return PlanResult.final(f"{len(said)}: {said[-1]}")


@pytest.fixture
async def client(serve):
    return await serve(planner=plan, policy=RunPolicy(interrupts_allowed=True))


@pytest.fixture
async def schedule(client):
    """Create schedules with ids of their own; they are deleted at the end."""
    made = []

    async def create(text="report", **options):
        options = {"schedule_id": f"sched-{uuid.uuid4().hex[:8]}", **options}
        made.append(await client.schedule("test.agent", text, **options))
        return made[-1]

    yield create
    for each in made:
        try:
            await each.delete()
        except ScheduleNotFound:
            pass


async def ids(schedule, until, count=1):
    """The ids of what the schedule did, once it has acted so often."""

    async def acted():
        status = await schedule.status()
        return status if len(status.last) >= count else None

    return [each.id for each in (await until(acted)).last]


async def test_a_schedule_starts_runs(client, schedule, until):
    """Each has an id that begins with the schedule's, and is listed as any other run."""
    made = await schedule(every=DAY, labels={"team": "ops"}, note="for the morning")
    await made.trigger()
    (run_id,) = await ids(made, until)
    assert run_id.startswith(f"{made.id}-")
    assert (await client.get_run(run_id).result()).text == "1: report"
    status = await made.status()
    assert (status.agent_id, status.message, status.timing, status.note) == (
        "test.agent",
        "report",
        "every 1 day",
        "for the morning",
    )
    assert (status.count, status.paused, len(status.next_times) > 0) == (1, False, True)

    async def is_listed():
        return [each async for each in client.list_runs(agent_id="test.agent", labels={"team": "ops"})]

    assert run_id in [each.run_id for each in await until(is_listed)]


async def test_the_message_has_the_time_of_the_schedule(client, schedule, until):
    """The planner, the events, the transcript and lists have the due time in the zone of the schedule, not the placeholder."""
    made = await schedule("{{scheduled_at}} {scheduled_at}", cron="0 8 1 1 *", time_zone="Asia/Tokyo")
    await made.trigger()
    (run_id,) = await ids(made, until)
    due = datetime.fromisoformat(run_id.removeprefix(f"{made.id}-"))
    text = f"{{scheduled_at}} {due.astimezone(ZoneInfo('Asia/Tokyo')).isoformat()}"
    run = client.get_run(run_id)
    assert text.endswith("+09:00")
    assert (await run.result()).text == f"1: {text}"
    events = [event async for event in run.events(follow=False)]
    assert events[0].message.text == text
    assert (await run.transcript())[0].text == text
    assert await message_of(await client.temporal.get_workflow_handle(run_id).describe()) == text


async def test_a_message_to_a_conversation_has_the_time_of_the_schedule(client, schedule, until):
    """It is filled in where the message is sent."""
    session_id = f"timed-{uuid.uuid4().hex[:6]}"
    made = await schedule("{scheduled_at:%d.%m.%Y %Z}", every=DAY, session_id=session_id)
    await made.trigger()
    (message_id,) = await ids(made, until)
    await client.temporal.get_workflow_handle(message_id).result()
    session = client.session("test.agent", session_id)
    turn = await session.send("{scheduled_at:%d}", message_id="by-hand")
    assert (await turn.result()).text == "2: {scheduled_at:%d}"
    (first, *_) = [each async for each in session.events(follow=False) if each.type == "message_received"]
    due = datetime.fromisoformat(message_id.removeprefix(f"{made.id}-"))
    assert first.message.text == f"{due:%d.%m.%Y} UTC"


async def test_a_time_that_the_clocks_leave_out_is_told(schedule):
    """The server's own reading of the cron expression says which times it skips."""
    yearly = await schedule(cron="30 2 28 3 *", time_zone="Europe/Berlin")
    status = await yearly.status()
    assert status.time_zone == "Europe/Berlin"
    assert "2027-03-28T02:30:00" in [each.isoformat() for each in status.skipped_times]
    assert all(each.date() != date(2027, 3, 28) for each in status.next_times)
    hourly = await schedule(cron="0 * * * *", time_zone="Europe/Berlin")
    assert (await hourly.status()).skipped_times == []


async def test_it_acts_by_itself(client, schedule, until):
    made = await schedule(every=timedelta(seconds=1))
    run_ids = await ids(made, until, 2)
    assert len(set(run_ids)) == len(run_ids)
    for run_id in run_ids:
        await client.get_run(run_id).result()


async def test_a_run_that_is_still_open_makes_it_skip(client, schedule, until):
    made = await schedule("ask", every=timedelta(seconds=1))
    (run_id, *_) = await ids(made, until)

    async def skipped():
        found = await client.temporal.get_schedule_handle(made.id).describe()
        return found.info.num_actions_skipped_overlap

    await until(skipped)
    await made.pause()
    assert [each.id for each in (await made.status()).last] == [run_id]
    await client.get_run(run_id).answer("this")
    await client.get_run(run_id).result()


async def test_a_schedule_sends_messages_to_a_conversation(client, schedule, until):
    """The first one starts it; each is delivered once, in order, beside those of people."""
    session_id = f"daily-{uuid.uuid4().hex[:6]}"
    made = await schedule(every=DAY, session_id=session_id, by="clock", labels={"team": "ops"})
    session = client.session("test.agent", session_id)
    for count in (1, 2):
        await made.trigger()
        message_ids = await ids(made, until, count)

        async def answered(count=count):
            try:
                found = [event async for event in session.events(follow=False)]
            except RunNotFound:  # the message is on its way
                return None
            return sum(event.type == "turn_completed" for event in found) == count and found

        events = await until(answered)
        await asyncio.sleep(1)  # the next trigger has another second, and so another id
    received = [event for event in events if event.type == "message_received"]
    assert [event.message_id for event in received] == message_ids
    assert {event.by for event in received} == {"clock"}
    assert (await (await session.send("and me?")).result()).text == "3: and me?"
    again = await session.send("the same", message_id=message_ids[0])
    assert (await again.result()).text == "1: report"
    assert (await made.status()).session_id == session_id


async def test_a_conversation_that_was_closed_fails_the_sending(client, schedule, until):
    session_id = f"closed-{uuid.uuid4().hex[:6]}"
    session = client.session("test.agent", session_id)
    await (await session.send("hello")).result()
    await session.close()
    await session.run.result()
    made = await schedule(every=DAY, session_id=session_id)
    await made.trigger()
    (message_id,) = await ids(made, until)
    with pytest.raises(WorkflowFailureError) as failed:
        await client.temporal.get_workflow_handle(message_id).result()
    assert failed.value.cause.cause.type == "AwaitClosed"


async def test_pause_resume_and_delete(client, schedule, until):
    made = await schedule(cron="0 8 * * 1-5", time_zone="Europe/Berlin")
    assert (await made.status()).timing == "0 8 * * 1-5 Europe/Berlin"
    await made.pause("holidays")
    status = await made.status()
    assert (status.paused, status.note) == (True, "holidays")
    await made.resume()
    assert not (await made.status()).paused

    async def is_listed():
        return [
            each async for each in client.list_schedules(agent_id="test.agent") if each.schedule_id == made.id
        ]

    (listed,) = await until(is_listed)
    assert (listed.timing, listed.message) == ("0 8 * * 1-5 Europe/Berlin", "report")
    assert [each async for each in client.list_schedules(agent_id="test.other")] == []
    await made.delete()
    for act in (made.status, made.pause, made.resume, made.trigger, made.delete):
        with pytest.raises(ScheduleNotFound, match="sojourn schedule list"):
            await act()


async def test_a_schedule_of_somebody_else_harms_no_listing(client, schedule, until):
    """Whatever its memo says; one without a memo of Sojourn is not listed."""
    action = ScheduleActionStartWorkflow("Other", id="other", task_queue="other")
    odd = Schedule(action=action, spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=DAY)]))
    tag = uuid.uuid4().hex[:8]
    handles = [
        await client.temporal.create_schedule(f"{tag}-{n}", odd, memo=memo)
        for n, memo in enumerate([{}, {"sojourn": 5}, {"sojourn": {"agent_id": 5, "paused": "x"}}])
    ]
    made = await schedule(every=DAY)

    async def all_listed():
        found = {each.schedule_id async for each in client.list_schedules()}
        return {f"{tag}-1", f"{tag}-2", made.id} <= found and found

    try:
        assert f"{tag}-0" not in await until(all_listed)
    finally:
        for handle in handles:
            await handle.delete()


async def test_an_id_that_is_taken(schedule):
    made = await schedule(every=DAY)
    with pytest.raises(ScheduleAlreadyExists, match=made.id):
        await schedule(every=DAY, schedule_id=made.id)


async def test_a_bad_schedule_is_refused_at_once(schedule, subtests):
    rows = [
        ({}, "either every"),
        ({"every": DAY, "cron": "* * * * *"}, "either every"),
        ({"every": timedelta(0)}, "at least"),
        ({"every": DAY, "time_zone": "Europe/Berlin"}, "time_zone is for cron"),
        ({"cron": "every morning"}, "refused"),
        ({"cron": "0 8 * * *", "time_zone": "Mars/Olympus"}, "refused"),
        ({"every": DAY, "schedule_id": "x" * 151}, "at most 150"),
        ({"every": DAY, "schedule_id": "an id"}, "run_id must begin"),
        ({"every": DAY, "text": "{scheduled_at:" + "x" * 101 + "}"}, "at most 100"),
        ({"every": DAY, "text": "{scheduled_at:%100000d}"}, "follows each %"),
        ({"every": DAY, "text": "{scheduled_at}" * 50_000}, "with the time filled in"),
        ({"every": DAY, "session_id": "s", "text": "{scheduled_at}" * 15_000}, "at most 256,000"),
        ({"every": DAY, "session_id": "it's"}, "session_id"),
        ({"every": DAY, "session_id": "s", "text": " "}, "is empty"),
        ({"every": DAY, "session_id": "s", "text": "x" * 300_000}, "at most 256,000"),
        (
            {"every": DAY, "session_id": "s", "text": [Message.user("a"), Message.user("b")]},
            "one user message",
        ),
    ]
    for options, why in rows:
        with subtests.test(why, options=options), pytest.raises(InvalidInput, match=why):
            await schedule(**options)


async def test_limits_of_the_conversation(client, schedule, until):
    """They count where the schedule's message starts it."""
    session_id = f"bounded-{uuid.uuid4().hex[:6]}"
    policy = RunPolicyOverride(session=SessionPolicy(max_turns=1))
    made = await schedule(every=DAY, session_id=session_id, policy=policy)
    await made.trigger()
    await ids(made, until)
    session = client.session("test.agent", session_id)

    async def ended():
        try:
            return (await session.status()).status == "completed"
        except RunNotFound:  # the message is on its way
            return False

    await until(ended)
    assert (await session.run.result()).reason == "max_turns"


@pytest.mark.parametrize("values", [[], ["x"], [{"agent_id": "a.b"}], [None, None]])
async def test_a_message_that_somebody_schedules_with_anything_fails(client, values):
    handle = await client.temporal.start_workflow(
        "ScheduledMessage", args=values, id=f"m-{uuid.uuid4().hex}", task_queue=client.task_queue
    )
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert failed.value.cause.type == "InvalidInput"

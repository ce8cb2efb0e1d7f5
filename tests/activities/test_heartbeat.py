"""Heartbeats: sent by the boundary, with the tool's last progress note."""

import asyncio
import json
import math
import threading
import time

import pytest
from temporalio import activity
from temporalio.testing import ActivityEnvironment

from activities import heartbeat
from activities.heartbeat import send_heartbeats
from sojourn import PlanResult, ToolRequest, Toolset
from sojourn.authoring.runnable import progress, reporter
from sojourn.serving.hardening.loop_watch import LATE
from sojourn.serving.hardening.lost_workers import Earlier
from sojourn.testing import ScriptedPlanner


class Beats(list):
    """The details of every heartbeat, and its time."""

    def __init__(self) -> None:
        super().__init__()
        self.times = []

    def __call__(self, *details) -> None:
        assert activity.in_activity()
        self.times.append(time.monotonic())
        self.append(details[0] if details else None)


@pytest.fixture
def in_activity(monkeypatch):
    """Run a body as an activity with short heartbeat intervals; the body's argument collects the heartbeats."""

    async def run(body, *, first=0.02, interval=0.05, note_interval=0.0, mask=None, earlier=None):
        monkeypatch.setattr(heartbeat, "FIRST_BEAT", first)
        monkeypatch.setattr(heartbeat, "INTERVAL", interval)
        monkeypatch.setattr(heartbeat, "NOTE_INTERVAL", note_interval)
        environment, beats, faults = ActivityEnvironment(), Beats(), []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: faults.append(context))
        environment.on_heartbeat = beats

        async def beat_while() -> None:
            with send_heartbeats(mask, earlier=earlier):
                await body(beats)

        try:
            await environment.run(beat_while)
        finally:
            loop.set_exception_handler(None)
        assert faults == []
        return beats

    return run


async def test_a_short_activity_costs_one_timer_and_no_heartbeat(in_activity, monkeypatch):
    """No heartbeat is sent in the first 3 s, however many notes the activity has."""
    assert heartbeat.FIRST_BEAT == 3
    timers, loop = [], asyncio.get_running_loop()
    plan_call = loop.call_at

    def call_at(when, callback, *args, context=None):
        timers.append(callback)
        return plan_call(when, callback, *args, context=context)

    async def body(beats) -> None:
        for number in range(1000):
            progress("working", done=number)
        await asyncio.to_thread(progress, "from a thread")
        for _ in range(5):
            await asyncio.sleep(0)

    monkeypatch.setattr(loop, "call_at", call_at)
    assert await in_activity(body, first=heartbeat.FIRST_BEAT) == []
    assert [name for callback in timers if (name := callback.__qualname__).startswith("_Beats")] == [
        "_Beats._beat"
    ]


async def test_beats_come_at_the_interval_and_end_with_the_activity(in_activity, until):
    """An activity without notes sends heartbeats without details, and none after its end."""

    async def body(beats) -> None:
        await until(lambda: len(beats) >= 3)

    beats = await in_activity(body, first=0.1, interval=0.2)
    assert beats == [None] * (sent := len(beats))
    assert all(later - earlier > 0.15 for earlier, later in zip(beats.times, beats.times[1:], strict=False))
    await asyncio.sleep(0.3)
    assert len(beats) == sent


async def test_the_last_note_goes_with_every_beat(in_activity, until):
    """Only the newest of many notes is sent, again and again until there is a newer one."""

    async def body(beats) -> None:
        progress("first")
        progress("second", done=300, total=1000)
        await until(lambda: len(beats) >= 2)
        progress("third", done=0.5)
        await until(lambda: beats[-1]["note"] == "third")

    beats = await in_activity(body)
    assert beats[:2] == [{"note": "second", "done": 300, "total": 1000}] * 2
    assert beats[-1] == {"note": "third", "done": 0.5}


async def test_a_note_goes_out_at_once_when_the_last_beat_is_long_ago(in_activity, until):
    """A new note does not wait for the next interval, unless a heartbeat was sent just before."""

    async def body(beats) -> None:
        await until(lambda: beats)
        await asyncio.sleep(0.1)
        noted = time.monotonic()
        progress("moving")
        await until(lambda: len(beats) == 2)
        assert beats.times[1] - noted < 10

    beats = await in_activity(body, interval=30, note_interval=0.1)
    assert beats == [None, {"note": "moving"}]


async def test_notes_in_a_row_are_sent_no_oftener_than_the_pace(in_activity, until):
    """A note too soon after a heartbeat is delayed; only the newest is sent."""

    async def body(beats) -> None:
        began = time.monotonic()
        async with asyncio.timeout(60):
            while len(beats) < 4:
                progress(f"{time.monotonic() - began:.3f}")
                await asyncio.sleep(0.002)

    beats = await in_activity(body, first=0.1, interval=30, note_interval=0.25)
    assert all(later - earlier > 0.24 for earlier, later in zip(beats.times, beats.times[1:], strict=False))
    sent = [float(beat["note"]) for beat in beats]
    assert sent == sorted(set(sent))


async def test_a_thread_can_report_progress(in_activity, until):
    """A thread with the call's context reports through the event loop, however many notes it has."""

    async def body(beats) -> None:
        def work() -> None:
            for number in range(10_000):
                progress("reading", done=number + 1, total=10_000)

        await asyncio.gather(*[asyncio.to_thread(work) for _ in range(4)])
        seen = len(beats)
        await until(lambda: len(beats) > seen)

    beats = await in_activity(body)
    assert beats[-1] == {"note": "reading", "done": 10_000, "total": 10_000}


async def test_a_thread_without_the_activitys_context_can_report(in_activity, until):
    """A tool may pass its reporter to a thread that it started: the heartbeat is that of its activity."""

    async def body(beats) -> None:
        report = reporter.get()

        def work() -> None:
            reporter.set(report)
            progress("from afar")

        await until(lambda: beats)
        threading.Thread(target=work).start()
        await until(lambda: len(beats) == 2)

    assert await in_activity(body, interval=30) == [None, {"note": "from afar"}]


async def test_concurrent_calls_keep_their_notes_apart(in_activity, until):
    """Each activity sends only its own notes."""

    async def say(name, beats) -> None:
        progress(name)
        await until(lambda: len(beats) >= 2)

    both = await asyncio.gather(
        in_activity(lambda beats: say("a", beats)), in_activity(lambda beats: say("b", beats))
    )
    assert [beats[0]["note"] for beats in both] == ["a", "b"]


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        ("read\x1b[31m 3\r\nof 5\x00\u202e", "read [31m 3 of 5"),
        ("x" * 201, "x" * 199 + "…"),
        ("half \ud83d of a pair", "half of a pair"),
        (12, "12"),
    ],
    ids=["control characters", "length", "surrogate", "no text"],
)
async def test_a_note_is_one_printable_line(in_activity, until, note, expected):
    """Text that a tool has read can neither control a terminal nor fail the heartbeat."""

    async def body(beats) -> None:
        progress(note)
        await until(lambda: beats)

    beats = await in_activity(body)
    assert beats[0] == {"note": expected}
    assert json.dumps(beats[0]).encode()


@pytest.mark.parametrize("number", [math.nan, math.inf, 10**400, "3", None], ids=str)
async def test_a_number_that_cannot_be_sent_is_left_out(in_activity, until, number):
    """A count that is no JSON number is dropped: a heartbeat that cannot be encoded would cancel the activity."""

    async def body(beats) -> None:
        progress("counting", done=number, total=-1)
        await until(lambda: beats)

    assert (await in_activity(body))[0] == {"note": "counting", "total": -1}


async def test_every_heartbeat_has_what_became_of_the_earlier_attempts(in_activity, until):
    """Heartbeats with a note have the number too: the next attempt reads it from the last heartbeat."""

    async def body(beats) -> None:
        await until(lambda: beats)
        progress("reading", done=3)
        await until(lambda: beats[-1].get("note"))

    beats = await in_activity(body, earlier=Earlier(2, unknown=True))
    assert beats[0] == {"lost": 2, "outcome_unknown": True}
    assert beats[-1] == {"note": "reading", "done": 3, "lost": 2, "outcome_unknown": True}


async def test_heartbeats_of_a_blocked_loop_keep_their_interval(in_activity):
    """The watch's thread sends a heartbeat once the loop's own is overdue, and the next an interval later."""

    async def body(beats) -> None:
        own = reporter.get().__self__
        late, interval = own._due + LATE, heartbeat.INTERVAL
        assert [own.is_overdue(now) for now in (late - 0.1, late)] == [False, True]
        await own.beat_from_thread(late, "blocks")
        assert [own.is_overdue(late + after) for after in (1, interval - 0.1, interval)] == [
            False,
            False,
            True,
        ]
        own.end()
        assert not own.is_overdue(late + 2 * interval)

    beats = await in_activity(body, first=30, interval=5)
    assert beats == [{"note": "blocks", "blocks_loop": True}]


async def test_a_secret_is_masked_before_the_note_is_cut(in_activity, until):
    """Shortening a long note does not leave the first part of a secret unmasked."""

    async def body(beats) -> None:
        progress("x" * 195 + "hunter2hunter2")
        await until(lambda: beats)

    beats = await in_activity(body, mask=lambda text: text.replace("hunter2hunter2", "***"))
    assert beats[0]["note"] == "x" * 195 + "***"


async def test_outside_of_a_call_and_after_it_progress_does_nothing(in_activity):
    """A tool's function can be tested without an activity, and an abandoned thread has no effect."""
    progress("nobody listens", done=1)
    late, released = [], threading.Event()

    def outlive() -> None:
        assert released.wait(20)
        progress("too late")
        late.append(reporter.get())

    async def body(beats) -> None:
        late.append(asyncio.create_task(asyncio.to_thread(outlive)))

    beats = await in_activity(body)
    assert reporter.get() is None
    released.set()
    await late[0]
    await asyncio.sleep(0.1)
    assert late[1] is not None
    assert beats == []


def test_a_thread_may_outlive_its_event_loop():
    """A note after the loop was closed is dropped, without an error in the tool."""
    reports = []

    async def main() -> None:
        async def body() -> None:
            with send_heartbeats():
                reports.append(reporter.get())
                raise LookupError

        with pytest.raises(LookupError):
            await ActivityEnvironment().run(body)
        reports[0].__self__._has_ended = False  # as if the loop had closed before the activity ended

    asyncio.run(main())
    token = reporter.set(reports[0])
    try:
        progress("too late")
        progress("too late again")
    finally:
        reporter.reset(token)


async def test_progress_of_tools_can_be_read_from_the_server(serve, until, monkeypatch):
    """While an async and a sync tool work, their last notes are in the heartbeat details of their activities."""
    monkeypatch.setattr(heartbeat, "FIRST_BEAT", 0.05)
    tools, released = Toolset("test.tools"), threading.Event()

    @tools.tool
    async def read() -> str:
        """Read rows."""
        progress("read 300 of 1,000 rows", done=300, total=1000)
        await until(released.is_set)
        return "read"

    @tools.tool
    def scan() -> str:
        """Scan hosts, in a thread."""
        progress("scanned 2 hosts", done=2)
        assert released.wait(20)
        return "scanned"

    plans = [
        PlanResult.calls(ToolRequest(name="test.tools.read"), ToolRequest(name="test.tools.scan")),
        PlanResult.final("done"),
    ]
    client = await serve(planner=ScriptedPlanner(plans), uses=(tools,))
    run = await client.start("test.agent", "go")
    handle = client.temporal.get_workflow_handle(run.id)

    async def both_notes() -> list[dict]:
        pending = (await handle.describe()).raw_description.pending_activities
        notes = [
            json.loads(each.heartbeat_details.payloads[0].data)
            for each in pending
            if each.heartbeat_details.payloads
        ]
        return len(notes) == 2 and sorted(notes, key=lambda each: each["note"])

    try:
        assert await until(both_notes) == [
            {"note": "read 300 of 1,000 rows", "done": 300, "total": 1000},
            {"note": "scanned 2 hosts", "done": 2},
        ]
    finally:
        released.set()
    assert (await run.result()).text == "done"

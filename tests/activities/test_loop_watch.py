"""Loop watch: heartbeats continue while the event loop is blocked, and the log names what blocks it."""

import asyncio
import inspect
import time
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs
from temporalio.testing import ActivityEnvironment

from activities import heartbeat
from activities.heartbeat import send_heartbeats
from sojourn.authoring.runnable import progress
from sojourn.serving.hardening import loop_watch
from sojourn.serving.hardening.loop_guard import new_event_loop

PATIENCE = 60


def on_each_loop(test):
    """Run an async test on asyncio's own loop, and on that of `sojourn worker`; each is a new one."""

    @pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, new_event_loop], ids=["asyncio", "worker"])
    def on_loop(new_loop, **given):
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(test(**given))

    on_loop.__doc__ = test.__doc__
    given = inspect.signature(test).parameters.values()
    on_loop.__signature__ = inspect.signature(on_loop).replace(
        parameters=[*given, inspect.Parameter("new_loop", inspect.Parameter.KEYWORD_ONLY)]
    )
    on_loop.pytestmark += getattr(test, "pytestmark", [])
    return on_loop


@pytest.fixture
def quick(monkeypatch):
    """Shorten the intervals of heartbeats and of the watch."""
    monkeypatch.setattr(loop_watch, "_WATCHES", {})
    for module, name, seconds in (
        (loop_watch, "TICK", 0.02),
        (loop_watch, "BLOCKED", 0.2),
        (heartbeat, "LATE", 0.1),
        (heartbeat, "FIRST_BEAT", 0.05),
        (heartbeat, "INTERVAL", 0.1),
    ):
        monkeypatch.setattr(module, name, seconds)


def block_until(condition) -> None:
    """Block the event loop until the condition is true."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


async def activity(body, beats, **who) -> None:
    """Run a body as an activity of its own."""
    environment = ActivityEnvironment()
    environment.on_heartbeat = lambda *details: beats.append(details[0] if details else None)

    async def beat_while() -> None:
        with send_heartbeats(who=who):
            await body()

    await environment.run(beat_while)


@on_each_loop
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("nested", [False, True], ids=["itself", "in a task of its own"])
async def test_calls_beside_a_blocking_call_heartbeat_and_the_log_names_it(nested):
    """The watch's thread heartbeats for all calls; the log and the blocking call's heartbeat say what blocks, and where."""
    beats, beside, done = [], [], asyncio.Event()

    def hold() -> None:
        block_until(lambda: len(beside) >= 3 and len(beats) >= 3 and len(logs) >= 2)

    async def blocks() -> None:
        async def inner() -> None:
            await asyncio.sleep(0)
            hold()

        await (asyncio.create_task(inner()) if nested else inner())
        done.set()

    async def waits() -> None:
        progress("at work")
        await done.wait()

    with capture_logs() as logs:
        neighbour = asyncio.create_task(activity(waits, beside, tool="a.b.quiet"))
        await asyncio.sleep(0)
        await activity(blocks, beats, tool="a.b.hog", run_id="r-1")
        await neighbour
    assert beside[:3] == [{"note": "at work"}] * 3
    entries = [line for line in logs if line["event"] == "tool_blocks_loop"]
    assert {(line["tool"], line["run_id"], line["log_level"]) for line in entries} == {
        ("a.b.hog", "r-1", "warning")
    }
    assert any(
        place.startswith("test_loop_watch.py:") and "in hold" in place for place in entries[0]["stack"]
    )
    assert entries[1]["seconds"] >= 2 * entries[0]["seconds"] - 0.1
    noted = [beat["note"] for beat in beats if beat]
    assert noted
    assert all("blocks its worker's event loop for" in note for note in noted)


@pytest.mark.usefixtures("quick")
async def test_on_the_loop_of_asyncio_a_callback_is_named_too():
    """A callback of the loop that blocks is logged with the call that scheduled it; uvloop does not show whose callback runs."""
    done = asyncio.Event()

    async def blocks() -> None:
        def hold() -> None:
            block_until(lambda: logs)
            done.set()

        asyncio.get_running_loop().call_soon(hold)
        await done.wait()

    with capture_logs() as logs:
        await activity(blocks, [], tool="a.b.hog")
    assert (logs[0]["event"], logs[0]["tool"]) == ("tool_blocks_loop", "a.b.hog")


@on_each_loop
@pytest.mark.usefixtures("quick")
async def test_a_planner_is_named_by_its_agent():
    """A planner that blocks the loop is logged with its agent's id."""
    with capture_logs() as logs:

        async def blocks() -> None:
            block_until(lambda: logs)

        await activity(blocks, [], agent_id="a.b")
    assert (logs[0]["event"], logs[0]["agent_id"]) == ("planner_blocks_loop", "a.b")


@on_each_loop
@pytest.mark.usefixtures("quick")
async def test_a_free_loop_sends_its_own_heartbeats(until, monkeypatch):
    """A free loop sends one heartbeat for each interval, and nothing is logged."""
    monkeypatch.setattr(loop_watch, "BLOCKED", 1.0)  # longer than other processes may hold this one up
    beats = []

    async def works() -> None:
        await until(lambda: len(beats) >= 15)

    with capture_logs() as logs:
        started = time.monotonic()
        await activity(works, beats, tool="a.b.c")
        assert len(beats) <= 2 + (time.monotonic() - started) / heartbeat.INTERVAL
    assert [line for line in logs if "blocks" in line["event"]] == []


@on_each_loop
@pytest.mark.usefixtures("quick")
async def test_a_loop_that_never_comes_back_is_given_up(monkeypatch):
    """Its calls get no more heartbeats, so that the server gives them to another worker; the log says so."""
    beside, counts = [], []
    monkeypatch.setattr(loop_watch, "GIVEN_UP", 0.5)

    async def blocks() -> None:
        block_until(lambda: any(line.get("is_given_up") for line in logs))
        counts.append(len(beside))
        time.sleep(5 * heartbeat.INTERVAL)
        counts.append(len(beside))

    with capture_logs() as logs:
        await activity(blocks, beside, tool="a.b.hog")
    assert counts[0] == counts[1] > 0


@on_each_loop
@pytest.mark.usefixtures("quick")
async def test_the_end_of_a_block_is_logged(until):
    """A loop that was blocked logs that it is free again."""
    with capture_logs() as logs:

        async def blocks() -> None:
            block_until(lambda: logs)

        await activity(blocks, [], tool="a.b.hog")
        await until(lambda: logs[-1]["event"] == "loop_free_again")


class Silent:
    """A loop that never runs its callbacks."""

    def __init__(self) -> None:
        self.is_over = False

    def is_closed(self) -> bool:
        return self.is_over

    def call_soon_threadsafe(self, *_args) -> None:
        pass


class PunctualCall:
    """A watched call whose heartbeat is never overdue."""

    who: dict[str, str] = {}  # noqa: RUF012

    def is_overdue(self, now: float) -> bool:
        return False


def test_a_process_that_was_stopped_is_not_given_up(monkeypatch):
    """After a process was frozen, with its container or by Ctrl-Z, its loop has two minutes to answer: it had no time before."""
    given_up, loop, now = [], Silent(), 0.0
    monkeypatch.setattr(loop_watch, "give_up", lambda _loop, reason: given_up.append((now, reason)))
    monkeypatch.setattr(loop_watch, "time", SimpleNamespace(monotonic=lambda: now, sleep=time.sleep))
    watch = loop_watch.LoopWatch(loop)
    watch.add(PunctualCall())
    for at in (0, 1, 2, 500, *range(501, 630)):
        now = float(at)
        watch._look()
    assert given_up[0][0] == 500 + loop_watch.GIVEN_UP
    loop.is_over = True

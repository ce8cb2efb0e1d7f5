"""Threads of sync tools: stuck threads are counted and bounded, and delay no other tool."""

import asyncio
import contextlib
import contextvars
import functools
import gc
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from sojourn.errors import ToolUnavailable
from sojourn.serving.hardening.threads import SyncThreads
from tests.acting import as_tenant

ROOT = Path(__file__).parents[2]
SOON = 0.5


class Stuck:
    """A call that ends only when it is released."""

    def __init__(self) -> None:
        self.begun, self.released = threading.Event(), threading.Event()

    def __call__(self) -> str:
        self.begun.set()
        assert self.released.wait(60)
        return "late"


@pytest.fixture
def make_stuck():
    """Make stuck calls; all are released at the end of the test."""
    made = []

    def make() -> Stuck:
        made.append(Stuck())
        return made[-1]

    yield make
    for each in made:
        each.released.set()


async def abandon(threads: SyncThreads, call: Stuck, until) -> None:
    """Start a call, and cancel it once it runs."""
    task = asyncio.create_task(threads.run("a.b.stuck", call))
    await until(call.begun.is_set)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def of_tool(logs: list, tool: str) -> list:
    """The log entries of a tool, without those of stuck calls of an earlier test."""
    return [line for line in logs if line.get("tool") == tool]


@pytest.fixture
def count_threads():
    """Count the threads of sync tools that were started since the test began."""
    before = set(threading.enumerate())
    return lambda: sum(each.name == "sojourn-tool" for each in set(threading.enumerate()) - before)


async def test_calls_run_at_the_same_time_in_as_many_threads_as_allowed():
    """All calls up to the bound run at once; further calls wait for a thread."""
    threads, barrier, lock, most = SyncThreads(4), threading.Barrier(4), threading.Lock(), [0, 0]

    def meet() -> int:
        with lock:
            most[0] += 1
            most[1] = max(most)
        barrier.wait(20)
        with lock:
            most[0] -= 1
        return threading.get_ident()

    idents = await asyncio.gather(*[threads.run("a.b.meet", meet) for _ in range(8)])
    assert len(idents) == 8
    assert len(set(idents)) == 4
    assert most[1] == 4


async def test_a_value_is_returned_and_an_exception_raised():
    """A value and an exception are those of the call itself."""
    threads, error = SyncThreads(1), KeyError("gone")

    def fail():
        raise error

    assert await threads.run("a.b.c", lambda: 42) == 42
    with pytest.raises(KeyError) as raised:
        await threads.run("a.b.c", fail)
    assert raised.value is error
    assert await threads.run("a.b.c", lambda: "and on") == "and on"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (SystemExit(3), SystemExit),
        (KeyboardInterrupt(), RuntimeError),
        (StopIteration("x"), RuntimeError),
        (asyncio.CancelledError(), RuntimeError),
        (GeneratorExit(), RuntimeError),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, BaseException) else "",
)
async def test_an_exception_that_would_end_a_thread_or_a_loop_ends_only_its_call(error, expected):
    """No exception hangs the caller, ends the thread or the loop, or looks like a cancellation."""
    threads = SyncThreads(1)

    def fail():
        raise error

    ident = await threads.run("a.b.c", threading.get_ident)
    with pytest.raises(expected) as raised:
        await threads.run("a.b.c", fail)
    assert error in (raised.value, raised.value.__cause__)
    assert expected is SystemExit or str(raised.value) == f"a.b.c raised {type(error).__name__}"
    assert await threads.run("a.b.c", threading.get_ident) == ident


async def test_a_call_runs_in_a_copy_of_the_callers_context():
    """The thread sees the caller's context variables, and its own changes stay there."""
    threads, variable = SyncThreads(1), contextvars.ContextVar("variable", default="none")

    def change() -> str:
        seen = variable.get()
        variable.set("changed")
        return seen

    variable.set("the caller's")
    assert await threads.run("a.b.c", change) == "the caller's"
    assert variable.get() == "the caller's"


async def test_an_overdue_call_is_abandoned_and_counted_until_it_ends(make_stuck, until):
    """A time-out returns at once; the log says how many abandoned threads continue, and when one ends."""
    threads, stuck = SyncThreads(2), make_stuck()
    with capture_logs() as logs:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SOON):
                await threads.run("a.b.overdue", stuck)
        assert of_tool(logs, "a.b.overdue") == [
            {"event": "sync_tool_abandoned", "log_level": "warning", "tool": "a.b.overdue", "abandoned": 1}
        ]
        stuck.released.set()
        await until(lambda: len(of_tool(logs, "a.b.overdue")) == 2)
    assert of_tool(logs, "a.b.overdue")[1] == {
        "event": "sync_tool_ended_late",
        "log_level": "info",
        "tool": "a.b.overdue",
        "abandoned": 0,
    }


async def test_a_cancelled_call_is_abandoned_and_leaves_its_slot(make_stuck, until):
    """With one slot, the next call runs while the cancelled one still holds its thread."""
    threads = SyncThreads(1, most_abandoned=2)
    await abandon(threads, make_stuck(), until)
    assert await threads.run("a.b.c", lambda: "free") == "free"


async def test_a_call_cancelled_before_its_turn_never_runs(make_stuck, until):
    """A call that waits for a slot is neither started nor counted as abandoned."""
    threads, stuck, ran = SyncThreads(1), make_stuck(), []
    first = asyncio.create_task(threads.run("a.b.turns", stuck))
    await until(stuck.begun.is_set)
    with capture_logs() as logs, pytest.raises(TimeoutError):
        async with asyncio.timeout(SOON):
            await threads.run("a.b.turns", lambda: ran.append(1))
    assert (ran, of_tool(logs, "a.b.turns")) == ([], [])
    stuck.released.set()
    assert await first == "late"
    assert await threads.run("a.b.c", lambda: "free") == "free"


async def test_too_many_abandoned_calls_refuse_further_ones_until_some_end(make_stuck, until):
    """A tool with abandoned calls in half of the threads is refused at once, until one of the calls ends."""
    threads, stuck = SyncThreads(4), [make_stuck() for _ in range(2)]
    for each in stuck:
        assert await threads.run("a.b.stuck", lambda: "free") == "free"
        await abandon(threads, each, until)
    with pytest.raises(ToolUnavailable, match="2 overdue calls of "):
        await threads.run("a.b.stuck", lambda: "free")
    stuck[0].released.set()

    async def is_free() -> bool:
        try:
            return await threads.run("a.b.stuck", lambda: True)
        except ToolUnavailable:
            return False

    await until(is_free)


async def test_a_tool_that_hangs_refuses_no_other_tool(make_stuck, until):
    """A tool with 32 overdue calls is refused; other tools run, and have a share of their own."""
    threads = SyncThreads()
    for _ in range(32):
        await abandon(threads, make_stuck(), until)
    with pytest.raises(ToolUnavailable, match="32 overdue calls of "):
        await threads.run("a.b.stuck", lambda: "free")
    for _ in range(3):
        assert await threads.run("a.b.other", lambda: "free") == "free"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SOON):
                await threads.run("a.b.other", make_stuck())
    assert await threads.run("a.b.other", lambda: "free") == "free"


async def test_calls_that_take_all_threads_delay_only_calls_of_their_tool(make_stuck, until):
    """While one tool's calls run in every thread, another tool has one more thread of its own."""
    threads, stuck = SyncThreads(4), [make_stuck() for _ in range(5)]
    tasks = [asyncio.create_task(threads.run("a.b.stuck", each)) for each in stuck]
    await until(lambda: sum(each.begun.is_set() for each in stuck) == 4)
    assert await asyncio.gather(*[threads.run("a.b.c", lambda: "free") for _ in range(20)]) == ["free"] * 20
    assert not stuck[4].begun.is_set()
    for each in stuck:
        each.released.set()
    assert await asyncio.gather(*tasks) == ["late"] * 5


async def test_calls_that_take_all_threads_delay_no_other_tenant(make_stuck, until):
    """A tenant without a thread gets a spare one, and tenants that wait get theirs in turn."""
    threads, stuck, order = SyncThreads(4), [make_stuck() for _ in range(10)], list[str]()

    def call(tenant):
        return threads.run("a.b.c", lambda: order.append(tenant))

    noisy = [asyncio.create_task(as_tenant("noisy", threads.run, "a.b.c", each)) for each in stuck]
    await until(lambda: sum(each.begun.is_set() for each in stuck) == 4)
    await as_tenant("quiet", call, "quiet")
    assert sum(each.begun.is_set() for each in stuck) == 4
    spare = make_stuck()
    noisy.append(asyncio.create_task(as_tenant("quiet", threads.run, "a.b.c", spare)))
    await until(spare.begun.is_set)
    waiting = asyncio.create_task(as_tenant("quiet", call, "quiet"))
    await asyncio.sleep(0)
    stuck[0].released.set()
    spare.released.set()
    await waiting
    assert order == ["quiet"] * 2
    for each in stuck:
        each.released.set()
    await asyncio.gather(*noisy)


async def test_threads_stay_within_the_sum_of_both_bounds(make_stuck, until, count_threads):
    """Calls that wait when the bound is reached are refused too, however many become overdue at once."""
    threads, stuck = SyncThreads(4, most_abandoned=2), [make_stuck() for _ in range(12)]
    await abandon(threads, stuck[0], until)
    tasks = [asyncio.create_task(threads.run("a.b.stuck", each)) for each in stuck[1:]]
    await until(lambda: sum(each.begun.is_set() for each in stuck) == 5)
    for task in tasks[:4]:
        task.cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in done] == [asyncio.CancelledError] * 4 + [ToolUnavailable] * 7
    assert count_threads() == 5
    for each in stuck:
        each.released.set()
    await until(lambda: count_threads() == 4)  # the threads of the bound stay for the next calls


async def test_no_slot_is_lost_over_a_thousand_quick_calls():
    """Calls that end, fail or are cancelled around their end all give their slot and thread back."""
    threads = SyncThreads(4, most_abandoned=1_000)

    def fail():
        raise ValueError

    async def one(number: int):
        async with asyncio.timeout(0.001 if number % 3 == 0 else None):
            return await threads.run("a.b.c", fail if number % 7 == 0 else lambda: number)

    done = await asyncio.gather(*[one(number) for number in range(1_000)], return_exceptions=True)
    assert {type(each) for each in done} == {int, ValueError, TimeoutError}
    assert all(done[number] == number for number in range(1_000) if number % 3 and number % 7)
    barrier = threading.Barrier(4)
    await asyncio.gather(*[threads.run("a.b.c", lambda: barrier.wait(20)) for _ in range(4)])
    assert (threads._running, dict(threads._abandoned), dict(threads._slots.by_name)) == (0, {}, {})


async def test_a_system_without_threads_makes_the_tool_unavailable(monkeypatch):
    """A call whose thread cannot be started holds no slot, and may be attempted again."""
    threads = SyncThreads(1)

    def full(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", full)
        with pytest.raises(ToolUnavailable, match="can't start new thread"):
            await threads.run("a.b.c", lambda: 1)
    assert await threads.run("a.b.c", lambda: 1) == 1


async def test_idle_threads_keep_nothing_and_end_with_their_owner(until, count_threads):
    """An idle thread keeps no value of its last call; all threads end when their `SyncThreads` is deleted."""
    threads = SyncThreads(2)

    class Large:
        pass

    def give(large) -> Large:
        return large

    def fail(large) -> None:
        raise LookupError

    async def pass_through(threads, call) -> weakref.ref:
        large = Large()
        with contextlib.suppress(LookupError):
            assert await threads.run("a.b.c", functools.partial(call, large)) is large
        return weakref.ref(large)

    gc.disable()
    try:
        for call in (give, fail):
            kept = await pass_through(threads, call)
            await until(lambda kept=kept: kept() is None)
    finally:
        gc.enable()
    assert count_threads() == 1
    del threads
    await until(lambda: count_threads() == 0)


EXIT = """
import asyncio, sys, threading, time
sys.path.insert(0, {root!r})
from sojourn.serving.hardening.threads import SyncThreads

async def main():
    threads = SyncThreads(2)
    await threads.run("a.b.c", lambda: None)
    late = asyncio.create_task(threads.run("a.b.c", lambda: time.sleep(1)))
    try:
        async with asyncio.timeout(0.1):
            await threads.run("a.b.stuck", lambda: time.sleep(600))
    except TimeoutError:
        print("overdue", flush=True)

asyncio.run(main())
print("bye", flush=True)
{rest}
"""


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    "rest",
    ["", "time.sleep(1.5); print(len([t for t in threading.enumerate() if t.name == 'sojourn-tool']))"],
    ids=["at once", "a thread ends after its loop"],
)
def test_an_interpreter_exits_with_threads_stuck(rest):
    """Neither the loop nor the interpreter waits for a thread; a thread whose call outlives the loop ends with the call."""
    done = subprocess.run(
        [sys.executable, "-c", EXIT.format(root=str(ROOT), rest=rest)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    printed = [line for line in done.stdout.splitlines() if "sync_tool" not in line]
    # Of the two abandoned threads one has ended by now; no idle thread is left.
    assert printed == ["overdue", "bye", *(["1"] if rest else [])]

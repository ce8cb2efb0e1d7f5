"""Programs run by tools: their output, their errors, and that none outlives its call."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

import sojourn.process.run
from sojourn.errors import ToolUnavailable
from sojourn.process import Completed, run_process
from sojourn.process.group import is_running, signal_group

LONG = "100"
SOON = timedelta(seconds=0.3)


@pytest.fixture
def ours(tmp_path):
    """List the processes that run with this test's folder as their own: those it has started."""

    def living() -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.cwd() == str(tmp_path) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    yield living
    for process in living():
        process.kill()


@pytest.fixture
def no_zombie():
    """Tell whether every child that this test started and that has ended was waited for."""
    before = set(psutil.Process().children())
    return lambda: all(
        child.status() != psutil.STATUS_ZOMBIE for child in set(psutil.Process().children()) - before
    )


async def test_a_program_gives_its_outputs_and_status():
    """Both outputs are kept apart, as bytes; a failed program is a result."""
    done = await run_process("sh", "-c", "printf out; printf err >&2; exit 3")
    assert done == Completed(returncode=3, stdout=b"out", stderr=b"err", truncated=False)


async def test_arguments_reach_the_program_as_they_are():
    """No shell reads them; a path is an argument too."""
    hostile = ["; rm -rf /", "$(id)", "`id`", "a b", "*", "", "\n"]
    code = "import sys, json; print(json.dumps(sys.argv[1:]))"
    done = await run_process(Path(sys.executable), "-c", code, *hostile, Path("/tmp"))
    assert done.stdout.decode() == __import__("json").dumps([*hostile, "/tmp"]) + "\n"


async def test_a_signal_is_a_negative_status():
    """A program that was killed by another than us has ended too."""
    assert (await run_process("sh", "-c", "kill -9 $$")).returncode == -9


async def test_input_larger_than_a_pipe_is_passed_whole():
    """A program that writes while it reads does not lock up."""
    text = os.urandom(3_000_000)
    done = await run_process("cat", stdin=text, max_output=5_000_000)
    assert (done.stdout, done.truncated) == (text, False)


async def test_a_program_need_not_read_its_input():
    """What it leaves unread is dropped."""
    assert (await run_process("true", stdin=b"x" * 3_000_000)).returncode == 0


@pytest.mark.parametrize("stdin", [None, b""])
async def test_without_input_there_is_nothing_to_read(stdin):
    """A program never waits for a terminal."""
    assert (await run_process("cat", stdin=stdin)).stdout == b""


async def test_output_beyond_the_bound_is_read_and_dropped():
    """50 MB neither block the program nor stay in memory."""
    write = "head -c 50000000 /dev/zero; head -c 50000000 /dev/zero >&2; echo last >&2; exit 7"
    tracemalloc.start()
    try:
        done = await run_process("sh", "-c", write, max_output=1000)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()
    assert done == Completed(returncode=7, stdout=bytes(1000), stderr=bytes(1000), truncated=True)


@pytest.mark.parametrize(("size", "truncated"), [(99, False), (100, False), (101, True)])
async def test_truncated_says_whether_anything_is_missing(size, truncated):
    """Output of just the bound is whole."""
    done = await run_process("head", "-c", str(size), "/dev/zero", max_output=100)
    assert (len(done.stdout), done.truncated) == (min(size, 100), truncated)


async def test_a_program_does_not_inherit_the_workers_secrets(monkeypatch):
    """It gets PATH, HOME and the language, and what it is given."""
    monkeypatch.setenv("SOME_API_KEY", "hunter2")
    monkeypatch.setenv("LANG", "C")
    plain = await run_process("env")
    assert b"hunter2" not in plain.stdout
    assert f"PATH={os.environ['PATH']}" in plain.stdout.decode().splitlines()
    given = (await run_process("env", env={"LANG": "C.UTF-8", "MORE": "1"})).stdout.decode().splitlines()
    assert {"LANG=C.UTF-8", "MORE=1", f"PATH={os.environ['PATH']}"} <= set(given)
    assert b"hunter2" in (await run_process("env", env=os.environ)).stdout


async def test_a_program_runs_where_it_is_told(tmp_path):
    """`cwd` is its directory."""
    assert (await run_process("pwd", cwd=tmp_path)).stdout.decode().strip() == str(tmp_path)


@pytest.mark.parametrize("name", ["no-such-program-here", "/no/such/program", __file__])
async def test_a_program_that_cannot_be_run_makes_the_tool_unavailable(name):
    """Missing, or not executable: another worker may have it."""
    with pytest.raises(ToolUnavailable, match=f"{name} cannot be run on this worker"):
        await run_process(name)


async def test_a_missing_directory_is_not_a_missing_program(tmp_path):
    """That is the author's fault, and told as it is."""
    with pytest.raises(FileNotFoundError):
        await run_process("true", cwd=tmp_path / "none")


async def test_an_overdue_program_is_ended(tmp_path, ours, no_zombie):
    """A time-out names the program, and nothing of it is left."""
    with pytest.raises(TimeoutError, match=r"sleep did not end within 0:00:00\.3"):
        await run_process("sleep", LONG, cwd=tmp_path, timeout=SOON)
    assert ours() == []
    assert no_zombie()


async def test_a_cancelled_task_leaves_no_process(tmp_path, ours, until, monkeypatch, no_zombie):
    """Grandchildren end with the program; an outer time-out stays one."""
    script = "sleep 100 & sleep 100"
    monkeypatch.setattr(sojourn.process.run, "GRACE", 20.0)
    task = asyncio.create_task(run_process("sh", "-c", script, cwd=tmp_path))
    await until(lambda: len(ours()) == 3)
    began = time.monotonic()
    task.cancel("why")
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ours() == []
    assert no_zombie()
    assert time.monotonic() - began < sojourn.process.run.GRACE
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await run_process("sh", "-c", script, cwd=tmp_path)
    assert ours() == []


@pytest.mark.parametrize("loops", [0, 1, 2, 3, 5, 8])
async def test_a_call_cancelled_while_it_starts_leaves_no_process(tmp_path, ours, loops):
    """However early the cancellation comes."""
    task = asyncio.create_task(run_process("sh", "-c", "sleep 100 & sleep 100", cwd=tmp_path, stdin=b"x"))
    for _ in range(loops):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ours() == []


STUBBORN = """
trap '' TERM
(trap '' TERM; touch child; while :; do sleep 0.05; done) &
touch leader
while :; do sleep 0.05; done
"""


async def test_a_program_that_ignores_the_request_is_killed(tmp_path, ours, until, monkeypatch, no_zombie):
    """SIGKILL follows SIGTERM after the grace, for its children too."""
    monkeypatch.setattr(sojourn.process.run, "GRACE", 0.5)
    task = asyncio.create_task(run_process("sh", "-c", STUBBORN, cwd=tmp_path))
    await until(lambda: {each.name for each in tmp_path.iterdir()} == {"leader", "child"})
    began = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ours() == []
    assert no_zombie()
    assert 0.5 <= time.monotonic() - began < 20


async def test_a_program_may_clean_up_when_it_is_asked_to_end(tmp_path, until, monkeypatch):
    """SIGTERM comes first, and there is time to act on it."""
    monkeypatch.setattr("sojourn.process.run.GRACE", 60.0)
    ready = tmp_path / "ready"
    script = "trap 'sleep 0.2; echo done > cleaned; exit' TERM; touch ready; while :; do sleep 0.05; done"
    task = asyncio.create_task(run_process("sh", "-c", script, cwd=tmp_path))
    await until(ready.exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (tmp_path / "cleaned").read_text() == "done\n"


async def test_an_impatient_second_cancel_does_not_leave_the_process(tmp_path, ours, until):
    """Ending is not interrupted; the call ends as cancelled, after it."""
    noted = STUBBORN.replace("trap '' TERM", "trap 'touch asked' TERM", 1)
    task = asyncio.create_task(run_process("sh", "-c", noted, cwd=tmp_path, timeout=timedelta(seconds=1)))
    await until((tmp_path / "asked").exists)  # the time-out has come: it is being ended
    for _ in range(3):
        assert task.cancel()
        await asyncio.sleep(0.02)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ours() == []


async def test_what_a_program_leaves_behind_is_ended(tmp_path, ours, monkeypatch):
    """A program that ends by itself takes what it started in the background with it, and keeps its result."""
    monkeypatch.setattr(sojourn.process.run, "GRACE", 0.5)
    quiet = await run_process("sh", "-c", "sleep 100 >/dev/null 2>&1 & echo quiet", cwd=tmp_path)
    assert (quiet.stdout, quiet.returncode, ours()) == (b"quiet\n", 0, [])
    holding = await run_process("sh", "-c", "sleep 100 & echo holding", cwd=tmp_path)
    assert (holding.stdout, holding.returncode, ours()) == (b"holding\n", 0, [])


async def test_what_a_background_child_still_writes_is_read():
    """The end of the outputs is waited for, not only that of the program."""
    done = await run_process("sh", "-c", "(sleep 0.3; echo late) & echo first")
    assert done.stdout == b"first\nlate\n"


def open_files() -> set[tuple[str, int]]:
    """What this process has open; other tests' connections may end meanwhile."""
    found = set()
    for number in os.listdir("/dev/fd"):
        with contextlib.suppress(OSError):  # the one by which the list was read
            found.add((number, os.fstat(int(number)).st_ino))
    return found


async def test_a_child_that_left_the_group_holds_nobody_up(tmp_path, ours, until, monkeypatch):
    """It cannot be found, but neither its hold of the outputs nor unread input keeps the call."""
    monkeypatch.setattr(sojourn.process.run, "GRACE", 0.3)
    watched = asyncio.get_running_loop()._selector.get_map()
    before = open_files(), set(watched)
    leave = "exec 3<&0; setsid sh -c 'touch left; exec sleep 100' <&3 &"
    done = await run_process(
        *("sh", "-c", f"{leave} while [ ! -e left ]; do sleep 0.01; done; echo gone"),
        cwd=tmp_path,
        stdin=b"x" * 1_000_000,
    )
    assert done.stdout == b"gone\n"
    assert len(ours()) == 1
    await until(lambda: open_files() <= before[0] and set(watched) <= before[1])


NEGLECT = """
import os, time
pid = os.fork()
if pid == 0:
    os.setpgid(0, 0)
    os._exit(0)
os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
print(pid, flush=True)
time.sleep(100)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the states of a group")
def test_the_dead_that_nobody_reaps_do_not_count_as_running():
    """In a container without an init the heir of a program's children may never look at them."""
    parent = subprocess.Popen([sys.executable, "-c", NEGLECT], stdout=subprocess.PIPE, start_new_session=True)
    try:
        zombie = int(parent.stdout.readline())
        assert signal_group(zombie, 0)
        assert not is_running(zombie)
        assert is_running(parent.pid)
    finally:
        parent.kill()
        parent.communicate()
    assert not is_running(parent.pid)


async def test_many_programs_run_at_once(no_zombie):
    """Each has its own outputs."""
    done = await asyncio.gather(*[run_process("sh", "-c", f"echo {number}") for number in range(20)])
    assert [int(each.stdout) for each in done] == list(range(20))
    assert no_zombie()


@pytest.mark.parametrize("loops", [0, 1, 2, 3, 5, 20])
def test_the_end_of_an_event_loop_ends_its_programs(tmp_path, ours, loops):
    """A worker that stops takes the programs of its tools with it, even one that it was just starting."""

    async def main() -> asyncio.Task:
        task = asyncio.create_task(
            run_process("sh", "-c", "sleep 100 & sleep 100", cwd=tmp_path, stdin=b"x" * 200_000)
        )
        for _ in range(loops):
            await asyncio.sleep(0)
        while loops == 20 and len(ours()) < 3:
            await asyncio.sleep(0.01)
        return task

    assert asyncio.run(main()).cancelled()
    assert ours() == []


def test_a_loop_that_ends_while_a_program_is_being_ended_leaves_nothing(tmp_path, ours, monkeypatch):
    """There is no time to be polite then."""

    async def main() -> None:
        task = asyncio.create_task(run_process("sh", "-c", STUBBORN, cwd=tmp_path))
        while not {"leader", "child"} <= {each.name for each in tmp_path.iterdir()}:
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.sleep(0.05)
        assert not task.done()

    monkeypatch.setattr(sojourn.process.run, "GRACE", 60.0)
    began = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - began < sojourn.process.run.GRACE
    deadline = time.monotonic() + 10
    while ours():
        assert time.monotonic() < deadline
        time.sleep(0.01)


async def test_a_system_without_threads_leaves_no_process(tmp_path, ours, monkeypatch, no_zombie):
    """A program that nobody could wait for is killed at once."""

    def full(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", full)
    with pytest.raises(ToolUnavailable, match="can't start new thread"):
        await run_process("sleep", LONG, cwd=tmp_path)
    assert ours() == []
    assert no_zombie()


def test_signals_reach_the_group_alone():
    """A program is not in the worker's own group, so Ctrl-C in a terminal is the worker's to answer."""
    done = asyncio.run(run_process("sh", "-c", "ps -o pgid= -p $$; echo $$"))
    group, pid = done.stdout.split()
    assert group == pid
    assert int(group) != os.getpgrp()
    assert signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL

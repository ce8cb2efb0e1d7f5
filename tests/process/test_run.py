"""Programs run by tools: their outputs and errors; none outlives its call."""

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
from sojourn.process.program import is_running, signal_group

pytestmark = pytest.mark.usefixtures("processes")

LONG = "100"
SOON = timedelta(seconds=0.3)


@pytest.fixture
def own_processes(tmp_path):
    """Return the running processes whose working directory is this test's folder."""

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
    """Whether every ended child process of this test was reaped."""
    before = set(psutil.Process().children())
    return lambda: all(
        child.status() != psutil.STATUS_ZOMBIE for child in set(psutil.Process().children()) - before
    )


async def test_a_program_gives_its_outputs_and_status():
    """The two outputs are separate bytes; a non-zero status is a result."""
    done = await run_process("sh", "-c", "printf out; printf err >&2; exit 3")
    assert done == Completed(returncode=3, stdout=b"out", stderr=b"err", truncated=False)


async def test_arguments_reach_the_program_as_they_are():
    """No shell interprets the arguments; a path is an argument too."""
    hostile = ["; rm -rf /", "$(id)", "`id`", "a b", "*", "", "\n"]
    code = "import sys, json; print(json.dumps(sys.argv[1:]))"
    done = await run_process(Path(sys.executable), "-c", code, *hostile, Path("/tmp"))
    assert done.stdout.decode() == __import__("json").dumps([*hostile, "/tmp"]) + "\n"


async def test_a_signal_is_a_negative_status():
    """A program that a signal ended has a negative status."""
    assert (await run_process("sh", "-c", "kill -9 $$")).returncode == -9


async def test_input_larger_than_a_pipe_is_passed_whole():
    """A program that writes while it reads does not deadlock."""
    text = os.urandom(3_000_000)
    done = await run_process("cat", stdin=text, max_output=5_000_000)
    assert (done.stdout, done.truncated) == (text, False)


async def test_a_program_need_not_read_its_input():
    """Input that a program does not read is dropped."""
    assert (await run_process("true", stdin=b"x" * 3_000_000)).returncode == 0


@pytest.mark.parametrize("stdin", [None, b""])
async def test_without_input_there_is_nothing_to_read(stdin):
    """Without input, standard input is empty instead of a terminal."""
    assert (await run_process("cat", stdin=stdin)).stdout == b""


async def test_output_beyond_the_bound_is_read_and_dropped():
    """An output of 50 MB neither blocks the program nor stays in memory."""
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
    """Output of exactly `max_output` bytes is not truncated."""
    done = await run_process("head", "-c", str(size), "/dev/zero", max_output=100)
    assert (len(done.stdout), done.truncated) == (min(size, 100), truncated)


async def test_a_program_does_not_inherit_the_workers_secrets(monkeypatch):
    """A program gets the variables of `INHERITED` and of `env`, and no others."""
    monkeypatch.setenv("SOME_API_KEY", "hunter2")
    monkeypatch.setenv("LANG", "C")
    plain = await run_process("env")
    assert b"hunter2" not in plain.stdout
    assert f"PATH={os.environ['PATH']}" in plain.stdout.decode().splitlines()
    given = (await run_process("env", env={"LANG": "C.UTF-8", "MORE": "1"})).stdout.decode().splitlines()
    assert {"LANG=C.UTF-8", "MORE=1", f"PATH={os.environ['PATH']}"} <= set(given)
    assert b"hunter2" in (await run_process("env", env=os.environ)).stdout


async def test_a_program_runs_where_it_is_told(tmp_path):
    """`cwd` is the program's working directory."""
    assert (await run_process("pwd", cwd=tmp_path)).stdout.decode().strip() == str(tmp_path)


@pytest.mark.parametrize("name", ["no-such-program-here", "/no/such/program", __file__])
async def test_a_program_that_cannot_be_run_makes_the_tool_unavailable(name):
    """A missing or not executable program is `ToolUnavailable`, since another worker may have it."""
    with pytest.raises(ToolUnavailable, match=f"{name} cannot be run on this worker"):
        await run_process(name)


async def test_a_missing_directory_is_not_a_missing_program(tmp_path):
    """A missing `cwd` is the author's error, and is raised unchanged."""
    with pytest.raises(FileNotFoundError):
        await run_process("true", cwd=tmp_path / "none")


async def test_an_overdue_program_is_ended(tmp_path, own_processes, no_zombie):
    """The time-out's error names the program, of which no process is left."""
    with pytest.raises(TimeoutError, match=r"sleep did not end within 0:00:00\.3"):
        await run_process("sleep", LONG, cwd=tmp_path, timeout=SOON)
    assert own_processes() == []
    assert no_zombie()


async def test_a_cancelled_task_leaves_no_process(tmp_path, own_processes, until, monkeypatch, no_zombie):
    """The whole process group ends on a cancellation; a caller's own time-out is raised as such."""
    script = "sleep 100 & sleep 100"
    monkeypatch.setattr(sojourn.process.run, "GRACE", 20.0)
    task = asyncio.create_task(run_process("sh", "-c", script, cwd=tmp_path))
    await until(lambda: len(own_processes()) == 3)
    began = time.monotonic()
    task.cancel("why")
    with pytest.raises(asyncio.CancelledError):
        await task
    assert own_processes() == []
    assert no_zombie()
    assert time.monotonic() - began < sojourn.process.run.GRACE
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await run_process("sh", "-c", script, cwd=tmp_path)
    assert own_processes() == []


@pytest.mark.parametrize("loops", [0, 1, 2, 3, 5, 8])
async def test_a_call_cancelled_while_it_starts_leaves_no_process(tmp_path, own_processes, loops):
    """A cancellation at any step of the start leaves no process."""
    task = asyncio.create_task(run_process("sh", "-c", "sleep 100 & sleep 100", cwd=tmp_path, stdin=b"x"))
    for _ in range(loops):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert own_processes() == []


STUBBORN = """
trap '' TERM
(trap '' TERM; touch child; while :; do sleep 0.05; done) &
touch leader
while :; do sleep 0.05; done
"""


async def test_a_program_that_ignores_the_request_is_killed(
    tmp_path, own_processes, until, monkeypatch, no_zombie
):
    """SIGKILL follows SIGTERM after the grace period, for the program's children too."""
    monkeypatch.setattr(sojourn.process.run, "GRACE", 0.5)
    task = asyncio.create_task(run_process("sh", "-c", STUBBORN, cwd=tmp_path))
    await until(lambda: {each.name for each in tmp_path.iterdir()} == {"leader", "child"})
    began = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert own_processes() == []
    assert no_zombie()
    assert time.monotonic() - began >= 0.5


async def test_a_program_may_clean_up_when_it_is_asked_to_end(tmp_path, until, monkeypatch):
    """A program has time to act on SIGTERM before SIGKILL."""
    monkeypatch.setattr("sojourn.process.run.GRACE", 60.0)
    ready = tmp_path / "ready"
    script = "trap 'sleep 0.2; echo done > cleaned; exit' TERM; touch ready; while :; do sleep 0.05; done"
    task = asyncio.create_task(run_process("sh", "-c", script, cwd=tmp_path))
    await until(ready.exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (tmp_path / "cleaned").read_text() == "done\n"


async def test_a_program_that_is_ended_in_its_first_moment_may_still_write(tmp_path, monkeypatch):
    """A call that is cancelled while the program's outputs are connected leaves them open until the program has ended."""
    monkeypatch.setattr("sojourn.process.run.GRACE", 60.0)
    script = "trap 'echo asked; echo done > cleaned; exit' TERM; touch ready; while :; do sleep 0.05; done"
    task = asyncio.create_task(run_process("sh", "-c", script, cwd=tmp_path))
    await asyncio.sleep(0)  # the program is started
    while not (tmp_path / "ready").exists():
        time.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (tmp_path / "cleaned").read_text() == "done\n"


async def test_a_second_cancellation_does_not_leave_the_process(tmp_path, own_processes, until):
    """Further cancellations do not interrupt the end of the program; then the call is cancelled."""
    noted = STUBBORN.replace("trap '' TERM", "trap 'touch asked' TERM", 1)
    task = asyncio.create_task(run_process("sh", "-c", noted, cwd=tmp_path, timeout=timedelta(seconds=1)))
    await until((tmp_path / "asked").exists)  # the program has timed out and is being ended
    for _ in range(3):
        assert task.cancel()
        await asyncio.sleep(0.02)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert own_processes() == []


async def test_what_a_program_leaves_behind_is_ended(tmp_path, own_processes, monkeypatch):
    """When a program ends by itself, its background processes are ended, and its result is kept."""
    monkeypatch.setattr(sojourn.process.run, "GRACE", 0.5)
    quiet = await run_process("sh", "-c", "sleep 100 >/dev/null 2>&1 & echo quiet", cwd=tmp_path)
    assert (quiet.stdout, quiet.returncode, own_processes()) == (b"quiet\n", 0, [])
    holding = await run_process("sh", "-c", "sleep 100 & echo holding", cwd=tmp_path)
    assert (holding.stdout, holding.returncode, own_processes()) == (b"holding\n", 0, [])


async def test_what_a_background_child_still_writes_is_read():
    """Outputs are read to their end, also after the program has ended."""
    done = await run_process("sh", "-c", "(sleep 0.3; echo late) & echo first")
    assert done.stdout == b"first\nlate\n"


def open_files() -> set[tuple[str, int]]:
    """Return the number and inode of each open file of this process; other tests may close theirs meanwhile."""
    found = set()
    for number in os.listdir("/dev/fd"):
        with contextlib.suppress(OSError):  # the descriptor of the listing itself
            found.add((number, os.fstat(int(number)).st_ino))
    return found


async def test_a_child_that_left_the_group_does_not_delay_the_call(
    tmp_path, own_processes, until, monkeypatch
):
    """A process in another session is not ended, but its hold of the outputs and unread input do not delay the call."""
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
    assert len(own_processes()) == 1
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


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows the states of processes in /proc")
def test_zombies_do_not_count_as_running():
    """A zombie does not count as running: in a container without an init, orphans may never be reaped."""
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
    """Twenty parallel programs have separate outputs."""
    done = await asyncio.gather(*[run_process("sh", "-c", f"echo {number}") for number in range(20)])
    assert [int(each.stdout) for each in done] == list(range(20))
    assert no_zombie()


@pytest.mark.parametrize("loops", [0, 1, 2, 3, 5, 20])
def test_the_end_of_an_event_loop_ends_its_programs(tmp_path, own_processes, loops):
    """When an event loop ends, its programs end too, even one that is just being started."""

    async def main() -> asyncio.Task:
        task = asyncio.create_task(
            run_process("sh", "-c", "sleep 100 & sleep 100", cwd=tmp_path, stdin=b"x" * 200_000)
        )
        for _ in range(loops):
            await asyncio.sleep(0)
        while loops == 20 and len(own_processes()) < 3:
            await asyncio.sleep(0.01)
        return task

    assert asyncio.run(main()).cancelled()
    assert own_processes() == []


def test_a_loop_that_ends_while_a_program_is_being_ended_leaves_nothing(tmp_path, own_processes, monkeypatch):
    """When the loop ends, SIGKILL follows without the rest of the grace period."""

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
    deadline = time.monotonic() + 60
    while own_processes():
        assert time.monotonic() < deadline
        time.sleep(0.01)


async def test_a_system_without_threads_leaves_no_process(tmp_path, own_processes, monkeypatch, no_zombie):
    """A program that cannot be waited for in a thread is killed at once."""

    def full(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", full)
    with pytest.raises(ToolUnavailable, match="can't start new thread"):
        await run_process("sleep", LONG, cwd=tmp_path)
    assert own_processes() == []
    assert no_zombie()


def test_signals_reach_the_group_alone():
    """A program is not in the worker's process group, so Ctrl-C in a terminal reaches only the worker."""
    done = asyncio.run(run_process(sys.executable, "-c", "import os; print(os.getpgrp(), os.getpid())"))
    group, pid = map(int, done.stdout.split())
    assert group == pid != os.getpgrp()
    assert signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL

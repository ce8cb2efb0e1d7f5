"""Stalls: a loop, a process or a machine that stood still is noticed before anything else happens."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from sojourn.serving.hardening import loop_watch
from sojourn.serving.hardening.loop_watch import STALL, TICK, Stalls, stalls_of


class Clocks:
    """The clocks of a machine, and a loop whose timers run only when a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.boot, self.wall = 1_000.0, 1_700_000_000.0
        self.due = None
        # The module's threads, of loops of other tests, sleep meanwhile.
        own = {"clock_gettime": lambda _clock: self.boot, "time": lambda: self.wall}
        monkeypatch.setattr(loop_watch, "time", SimpleNamespace(**{**vars(time), **own}))

    def call_later(self, seconds: float, callback):
        assert seconds == TICK
        self.due = callback
        return SimpleNamespace(cancel=lambda: None)

    def pass_by(self, boot: float, wall: float | None = None, *, runs: bool = True) -> None:
        """Let time pass, after which the loop's timer runs, or has not run yet."""
        self.boot += boot
        self.wall += boot if wall is None else wall
        if runs:
            self.due()


@pytest.fixture
def clocks(monkeypatch) -> Clocks:
    return Clocks(monkeypatch)


@pytest.fixture
def watched(clocks):
    """The watch over the loop, in which a worker is open."""
    stalls = Stalls(clocks)
    with stalls.watch():
        yield stalls


def test_a_loop_that_is_on_time_has_not_stalled(clocks, watched):
    """Notes of the time that are a little late are no stall."""
    for _ in range(60):
        clocks.pass_by(TICK + STALL - 0.1)
    assert watched.last() == float("-inf")


@pytest.mark.parametrize("is_first", [True, False], ids=["first look", "timer"])
def test_a_stall_is_known_by_its_end(clocks, watched, is_first):
    """Whoever looks first after a stall, or the timer, notes when it was over; later looks find the same."""
    clocks.pass_by(22, runs=not is_first)
    over = clocks.boot
    assert watched.last() == over
    clocks.pass_by(TICK)
    assert watched.last() == over


def test_a_virtual_machine_whose_clocks_stood_still_has_stalled_once_its_wall_clock_is_set(clocks, watched):
    """A jump of the wall clock is a stall, too; one backwards is none."""
    clocks.pass_by(TICK, wall=-3_600)
    assert watched.last() == float("-inf")
    clocks.pass_by(TICK, wall=22)
    assert watched.last() == clocks.boot


def test_the_clock_goes_on_while_the_machine_is_suspended():
    """On Linux the clock is the one that counts suspended time."""
    assert getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC) == loop_watch._CLOCK


def test_a_loop_without_a_worker_does_not_stall(clocks):
    """What a program does before its worker opens, and between two, concerns no task."""
    stalls = Stalls(clocks)
    clocks.pass_by(22, runs=False)
    with stalls.watch():
        assert stalls.last() == float("-inf")
        clocks.pass_by(22)
        assert stalls.last() == clocks.boot
    clocks.pass_by(22, runs=False)
    with stalls.watch(), stalls.watch():
        assert stalls.last() == float("-inf")


async def test_a_loop_has_one_watch():
    """Each caller in a loop gets the same watch."""
    loop = asyncio.get_running_loop()
    assert stalls_of(loop) is stalls_of(loop)


STOPPED = """
import asyncio, os, signal
from sojourn.serving.hardening import loop_watch as stalls

async def main():
    watched = stalls.stalls_of(asyncio.get_running_loop())
    with watched.watch():
        assert watched.last() == float("-inf")
        print("ready", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
        print(watched.last() > 0, flush=True)

stalls.STALL = 0.2
stalls.TICK = 0.1
asyncio.run(main())
"""


@pytest.mark.usefixtures("processes")
def test_a_process_that_was_stopped_knows_it_at_its_next_instruction():
    """The instruction after SIGSTOP finds the stall, before the loop has run."""
    with subprocess.Popen([sys.executable, "-c", STOPPED], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        time.sleep(0.4)
        process.send_signal(signal.SIGCONT)
        assert process.stdout.readline() == "True\n"

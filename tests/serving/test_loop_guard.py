"""The loop guard: how long a worker that was asked to stop may still run."""

import asyncio
import gc
import queue
import sys
from datetime import timedelta

import pytest
from temporalio.runtime import Runtime

from sojourn.serving.hardening import loop_guard
from sojourn.serving.hardening.loop_guard import _Deadline, _keep_runtimes, run_guarded


class Allowed(queue.SimpleQueue):
    """A queue of allowances; records the time-outs with which the thread waits for them."""

    def __init__(self, *seconds: float | None) -> None:
        self.left: list[float | None] = []
        self._coming = list(seconds)

    def get(self, block: bool = True, timeout: float | None = None) -> float | None:
        del block
        self.left.append(timeout)
        if not self._coming:
            raise queue.Empty
        return self._coming.pop(0)


@pytest.fixture
def ends(monkeypatch) -> list[int]:
    """The statuses with which the process would have been ended."""
    statuses: list[int] = []
    monkeypatch.setattr(loop_guard.os, "_exit", statuses.append)
    return statuses


def overseen(*seconds: float | None) -> list[float | None]:
    """The seconds that the thread waits for each of these allowances."""
    deadline = _Deadline()
    deadline._allowed = allowed = Allowed(*seconds)
    deadline._wait()
    return allowed.left


def test_a_later_allowance_never_gives_more_time(ends) -> None:
    """At first there is no deadline; then the earliest counts, so that nothing extends the deadline of a second signal."""
    first, drain, at_once, closing = overseen(1_000.0, 5.0, 60.0)
    assert first is None
    assert 5 < drain <= 1_000
    assert closing <= at_once <= 5
    assert ends == [1]


def test_a_process_that_has_ended_is_not_ended_again(ends) -> None:
    """A process that ends in time keeps its own exit status."""
    assert len(overseen(1_000.0, None)) == 2
    assert ends == []


def test_a_worker_process_has_the_loop_of_uvloop() -> None:
    """`sojourn worker` does not run on asyncio's own loop."""
    loops: list[asyncio.AbstractEventLoop] = []

    async def serving(_stop: object) -> None:
        loops.append(asyncio.get_running_loop())

    run_guarded(serving, drain=timedelta(0))
    assert type(loops[0]).__module__ == "uvloop"


def test_a_runtime_that_is_frozen_is_kept_too() -> None:
    """At the exit no runtime of the SDK is freed, also none of those that `sojourn serve` exempts from garbage collection."""
    runtime = Runtime.default()
    gc.freeze()
    before = sys.getrefcount(runtime)
    _keep_runtimes()
    gc.freeze()  # as after the collection of the tests
    assert sys.getrefcount(runtime) == before + 1

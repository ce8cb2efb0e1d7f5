"""SIGTERM: a worker finishes what it has begun, begins nothing new, and exits with 0."""

import asyncio
import signal

import pytest

from sojourn.worker import DRAIN


async def test_a_drain_finishes_the_tool_in_flight(stage):
    """A tool in flight ends once, on the worker that drains; another worker executes the rest of the run, and new runs."""
    stage.hold("clerk.write-one")
    first = await stage.worker()
    run = await stage.start()
    await stage.reached("clerk.write-one")
    first.signal(signal.SIGTERM)
    await first.says("worker_draining")
    later = await stage.start("asker")
    second = await stage.worker()
    await stage.asks(later)
    stage.release("clerk.write-one")
    assert await first.ends() == 0
    story = await stage.story(run)
    story.assert_repeated()
    done_by_first = ["clerk.plan-1", "clerk.write-one"]
    ended = [line for line in stage.records() if line["event"] == "end"]
    assert [line["point"] for line in ended if line["worker"] == first.name] == done_by_first
    assert {line["worker"] for line in ended if line["point"] not in done_by_first} == {second.name}
    assert "asker.plan-2" in {line["point"] for line in ended}


async def test_a_second_signal_ends_a_drain(stage):
    """A second SIGTERM during a drain ends the worker at once; another worker executes the call in flight again."""
    stage.hold("clerk.write-one")
    first = await stage.worker()
    run = await stage.start()
    await stage.reached("clerk.write-one")
    first.signal(signal.SIGTERM)
    await first.says("worker_draining")
    first.signal(signal.SIGTERM)
    assert await first.ends() == 0
    await stage.worker()
    stage.release("clerk.write-one")
    story = await stage.story(run)
    story.assert_repeated("clerk.write-one")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_an_idle_worker_exits_at_once(stage, number):
    """A worker with nothing in flight exits with 0 before the time of a drain is over."""
    worker = await stage.worker()
    worker.signal(number)
    async with asyncio.timeout(DRAIN.total_seconds()):
        assert await worker.ends() == 0
    assert "worker_stopped" in worker.log()
    assert "Traceback" not in worker.log()

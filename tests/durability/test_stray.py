"""Whatever code that a tool left behind does to the event loop: the worker serves on, or its process ends and says so."""

import asyncio
import signal

import pytest

pytestmark = pytest.mark.durability


async def harmed(stage, how):
    """A worker on whose loop a tool has left something, which has happened."""
    worker = await stage.worker("stray_app:app")
    out = await stage.client.execute("durable.stray", how)
    assert out.text == "done"
    (stage.folder / "go").touch()
    await stage.until(f"{how} happens", (stage.folder / "gone").exists)
    return worker


async def test_a_worker_serves_on(stages):
    """What ends a loop does not end the worker: it says so, serves the next run, and stops as ever."""

    async def serves_on(how, said):
        stage = await stages()
        worker = await harmed(stage, how)
        await worker.says(said)
        (stage.folder / "go").unlink()
        out = await stage.client.execute("durable.stray", how)
        assert out.text == "done"
        worker.signal(signal.SIGTERM)
        assert await worker.ends() == 0
        assert "worker_stopped" in worker.log()
        assert "Traceback" not in worker.log()

    async with asyncio.TaskGroup() as group:
        for how, said in (
            ("exit", "SystemExit"),
            ("interrupt", "KeyboardInterrupt"),
            ("stop", "loop_stopped"),
            ("handler", "loop_left"),
        ):
            group.create_task(serves_on(how, said))


async def test_a_cancelled_worker_has_failed(stage):
    """One whose tasks were all cancelled ends by itself, in one line and with a status that has it restarted."""
    worker = await harmed(stage, "cancel")
    assert await worker.ends() == 1
    assert worker.log().count("worker_cancelled") == 1
    assert "Traceback" not in worker.log()


async def test_what_does_not_end_holds_nobody(stage):
    """A task that takes no cancellation does not keep a worker that has drained, and changes no status."""
    worker = await harmed(stage, "deaf")
    worker.signal(signal.SIGTERM)
    assert await worker.ends() == 0
    assert "worker_stopped" in worker.log()
    assert "worker_overdue" in worker.log()


async def test_a_blocked_loop_ends(stages):
    """A worker whose loop does nothing any more ends at SIGTERM, however often it comes, and has failed."""

    async def ends(signals):
        worker = await harmed(await stages(), "block")
        for _ in range(signals):
            worker.signal(signal.SIGTERM)
        assert await worker.ends() == 1
        assert "worker_stopped" not in worker.log()

    async with asyncio.TaskGroup() as group:
        for signals in (1, 2, 3):
            group.create_task(ends(signals))

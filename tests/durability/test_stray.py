"""A task that a tool left behind harms the event loop: the worker continues, or its process ends and logs why."""

import asyncio
import signal


async def harmed(stage, how):
    """Start a worker, leave a task of a tool on its loop, and return once the task is about to do harm."""
    worker = await stage.worker("stray_app:app")
    out = await stage.client.execute("durable.stray", how)
    assert out.text == "done"
    (stage.folder / "go").touch()
    await stage.until(f"{how} happens", (stage.folder / "gone").exists)
    return worker


async def test_a_worker_continues(stages):
    """A worker whose event loop was ended logs that, serves the next run, and drains as usual."""

    async def continues(how, logged):
        stage = await stages()
        worker = await harmed(stage, how)
        await worker.says(logged)
        (stage.folder / "go").unlink()
        out = await stage.client.execute("durable.stray", how)
        assert out.text == "done"
        worker.signal(signal.SIGTERM)
        assert await worker.ends() == 0
        assert "worker_stopped" in worker.log()
        assert "Traceback" not in worker.log()

    async with asyncio.TaskGroup() as group:
        for how, logged in (
            ("exit", "SystemExit"),
            ("interrupt", "KeyboardInterrupt"),
            ("stop", "loop_stopped"),
            ("handler", "loop_left"),
        ):
            group.create_task(continues(how, logged))


async def test_a_cancelled_worker_has_failed(stage):
    """A worker whose tasks were all canceled logs that once and exits with 1, so that its supervisor restarts it."""
    worker = await harmed(stage, "cancel")
    assert await worker.ends() == 1
    assert worker.log().count("worker_cancelled") == 1
    assert "Traceback" not in worker.log()


async def test_a_task_that_ignores_cancellation_does_not_stop_a_drain(stage):
    """A worker with a task that ignores cancellation still drains, and exits with 0."""
    worker = await harmed(stage, "deaf")
    worker.signal(signal.SIGTERM)
    assert await worker.ends() == 0
    assert "worker_stopped" in worker.log()
    assert "worker_overdue" in worker.log()


async def test_a_blocked_loop_ends(stages):
    """A worker whose event loop is blocked ends at one, two or three SIGTERM, with exit code 1."""

    async def ends(signals):
        worker = await harmed(await stages(), "block")
        for _ in range(signals):
            worker.signal(signal.SIGTERM)
        assert await worker.ends() == 1
        assert "worker_stopped" not in worker.log()

    async with asyncio.TaskGroup() as group:
        for signals in (1, 2, 3):
            group.create_task(ends(signals))

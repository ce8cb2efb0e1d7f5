"""Cancel: whatever a run is doing, it closes as Canceled, with who and why, and with every call answered."""

import asyncio
import threading
from datetime import timedelta

import psutil
import pytest
from temporalio.api.enums.v1 import EventType

from sojourn import AwaitClarification, PlanResult, RunPolicy, ToolRequest, Toolset
from sojourn.errors import RunCanceled
from sojourn.process import run_process


@pytest.fixture(autouse=True)
def _quick_beats(monkeypatch):
    """Send heartbeats soon: a cancellation reaches an activity only with a heartbeat, by default after 3 s."""
    monkeypatch.setattr("activities.heartbeat.FIRST_BEAT", 0.05)
    monkeypatch.setattr("activities.heartbeat.INTERVAL", 0.2)


async def assert_canceled(run, traces):
    """Cancel a run, assert how it ended, and return its transcript."""
    await run.cancel("changed my mind")
    with pytest.raises(RunCanceled, match="changed my mind") as canceled:
        await run.result()
    assert canceled.value.reason == "changed my mind"
    assert canceled.value.by == run.client.temporal.identity
    status = await run.status()
    assert (status.status, status.awaits, status.phase) == ("canceled", [], "")
    assert "changed my mind" in status.failure
    events = [event async for event in run.events()]
    assert [event.type for event in events[-2:]] == ["run_canceled", "run_stream_end"]
    started = [event.call.tool_call_id for event in events if event.type == "tool_start"]
    ended = [event.result.tool_call_id for event in events if event.type == "tool_end"]
    assert sorted(started) == sorted(ended)
    assert await traces(run).count(EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED) == 1
    return await traces(run).check()


async def test_cancel_while_planning(serve, traces, until):
    """The planner in flight is cancelled with its run."""
    started, stopped = [], []

    async def plan(turn):
        started.append(turn)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append(turn)
            raise

    client = await serve(planner=plan)
    run = await client.start("test.agent", "go")
    await until(lambda: started)
    messages = await assert_canceled(run, traces)
    assert [message.role for message in messages] == ["user"]
    assert len(stopped) == 1


async def test_cancel_while_tools_run(serve, traces, until):
    """Calls done keep their result, those in flight (async, sync) and in the queue are answered as canceled."""
    tools, started, stopped, released = Toolset("test.tools"), [], [], threading.Event()

    @tools.tool
    async def quick() -> str:
        """End at once."""
        return "quick"

    @tools.tool
    async def stay() -> str:
        """Stay until cancelled."""
        started.append("stay")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append("stay")
            raise
        return ""

    @tools.tool
    def block() -> str:
        """Block a thread."""
        started.append("block")
        released.wait()
        return ""

    @tools.tool
    async def late() -> str:
        """Never get its turn."""
        started.append("late")
        return ""

    names = ["quick", "stay", "block", "late"]

    async def plan(turn):
        return PlanResult.calls(*[ToolRequest(name=f"test.tools.{name}") for name in names])

    client = await serve(planner=plan, uses=(tools,), policy=RunPolicy(max_parallel_calls=2))
    run = await client.start("test.agent", "go")
    try:
        await until(lambda: len(started) == 2)
        messages = await assert_canceled(run, traces)
    finally:
        released.set()
    results = messages[-1].tool_results
    assert [result.result for result in results] == ["quick", None, None, None]
    assert [result.error.code for result in results[1:]] == ["canceled"] * 3
    assert all("changed my mind" in result.error.message for result in results[1:])
    assert stopped == ["stay"]
    assert "late" not in started


async def test_a_tool_that_ends_in_spite_of_the_cancel_keeps_its_result(serve, traces, until):
    """A result that a tool returns while the run is being cancelled is in the transcript."""
    tools, started = Toolset("test.tools"), []

    @tools.tool
    async def finish() -> str:
        """Clean up and answer when cancelled."""
        started.append(1)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "cleaned up"
        return ""

    async def plan(turn):
        return PlanResult.calls(ToolRequest(name="test.tools.finish"))

    client = await serve(planner=plan, uses=(tools,))
    run = await client.start("test.agent", "go")
    await until(lambda: started)
    messages = await assert_canceled(run, traces)
    assert messages[-1].tool_results[0].result == "cleaned up"


@pytest.mark.parametrize(
    "pause",
    [
        pytest.param(PlanResult.ask(AwaitClarification(id="q", question="which?")), id="a question"),
        pytest.param(PlanResult.wait(timedelta(days=30)), id="a timer"),
    ],
)
async def test_cancel_while_waiting(serve, traces, status_when, pause):
    """A run that waits for a person or a timer closes at once."""

    async def plan(turn):
        return pause

    client = await serve(planner=plan, policy=RunPolicy(interrupts_allowed=True))
    run = await client.start("test.agent", "go")
    await status_when(run, lambda status: status.phase == "waiting")
    await assert_canceled(run, traces)


async def test_a_run_may_be_cancelled_before_a_worker_sees_it(serve, traces):
    """A cancel right after the start ends the run as canceled, whatever it had begun."""

    async def plan(turn):
        await asyncio.Event().wait()

    client = await serve(planner=plan)
    run = await client.start("test.agent", "go")
    await assert_canceled(run, traces)


@pytest.mark.usefixtures("processes")
async def test_cancel_ends_the_programs_of_its_tools(serve, traces, until, tmp_path):
    """A program that a tool runs, and the programs that it started, end with the run."""
    tools, pids = Toolset("test.tools"), tmp_path / "pids"

    @tools.tool
    async def build() -> str:
        done = await run_process("sh", "-c", f"sleep 300 & echo $! $$ > {pids}; wait")
        return str(done.returncode)

    async def plan(turn):
        return PlanResult.calls(build.call())

    client = await serve(planner=plan, uses=(tools,))
    run = await client.start("test.agent", "go")
    await until(lambda: pids.exists() and pids.read_text().endswith("\n"))
    started = [int(pid) for pid in pids.read_text().split()]
    assert all(psutil.pid_exists(pid) for pid in started)
    await assert_canceled(run, traces)
    await until(lambda: not any(psutil.pid_exists(pid) for pid in started))

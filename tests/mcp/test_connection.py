"""Restarts: a server that goes is `tool_unavailable`, one that comes back is used again."""

import asyncio
import os
import signal
import time
from datetime import timedelta

import psutil
import pytest

from sojourn import mcp
from sojourn.contracts.tool_call import ToolCallMeta
from sojourn.errors import ToolUnavailable


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_a_server_restarts_between_calls(kind, serving, opened, run, persist, until):
    """The next call is carried out, by the new server."""
    served = serving(kind).start()
    toolset = await opened(served.transport)
    await until(lambda: toolset.tools)
    first = (await run(toolset, "counts")).result["pid"]
    served.kill()
    with pytest.raises(ToolUnavailable):
        await run(toolset, "counts")
    await until(lambda: toolset.unavailable)
    assert "echo" in toolset.tools
    served.start()
    assert (await persist(toolset, "counts")).result["pid"] != first
    await until(lambda: toolset.unavailable is None)


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_a_server_dies_during_calls(kind, serving, opened, run, persist, until):
    """All calls in flight end as unavailable, at once, and a repetition succeeds."""
    served = serving(kind).start()
    toolset = await opened(served.transport)
    await until(lambda: toolset.tools)
    calls = [asyncio.create_task(run(toolset, "slow", seconds=30)) for _ in range(5)]
    asked = 0

    async def have_arrived() -> bool:
        nonlocal asked
        asked += 1
        return (await run(toolset, "counts")).result["call"] == asked + len(calls)

    await until(have_arrived)
    started = time.monotonic()
    served.kill()
    served.start()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ToolUnavailable] * 5
    assert time.monotonic() - started < 20
    assert (await persist(toolset, "echo", a=1)).result == {"a": 1}


async def test_a_process_is_started_again(opened, stdio, run, persist):
    """A server that crashes in a call fails that call; the next is another process."""
    toolset = await opened(stdio())
    first = (await run(toolset, "counts")).result["pid"]
    with pytest.raises(ToolUnavailable):
        await run(toolset, "crash")
    second = (await persist(toolset, "counts")).result["pid"]
    assert second != first
    os.kill(second, signal.SIGKILL)
    third = (await persist(toolset, "counts")).result["pid"]
    assert third not in (first, second)


async def test_many_calls_reopen_one_session(opened, stdio, run, persist):
    """After a crash all who wait get the same new process."""
    toolset = await opened(stdio())
    with pytest.raises(ToolUnavailable):
        await run(toolset, "crash")
    results = await asyncio.gather(*(persist(toolset, "counts") for _ in range(20)))
    assert len({result.result["pid"] for result in results}) == 1


async def test_a_server_that_is_down_stops_nobody(serving, opened, run, until):
    """Opening returns; calls are unavailable, and work as soon as the server is up."""
    served = serving("http")
    toolset = await opened(served.transport, connect_timeout=timedelta(seconds=5))
    assert toolset.unavailable == "its MCP server cannot be reached: nothing answers at its address"
    assert not toolset.tools
    with pytest.raises(ToolUnavailable, match="nothing answers"):
        await run(toolset, "echo", a=1)
    served.start()
    await until(lambda: toolset.tools)
    assert toolset.unavailable is None
    assert (await run(toolset, "echo", a=1)).result == {"a": 1}


async def test_a_call_before_discovery_is_checked_after_it(serving, opened, persist):
    """What stands in for a tool finds the tool, its schema, or that there is none."""
    served = serving("http")
    toolset = await opened(served.transport)
    early = toolset["order"], toolset["nonsense"]
    served.start()
    await persist(toolset, "echo")
    first = await early[0].prepare({}, toolset.call("order", sku="abc"), ToolCallMeta(run_id="run-1"))()
    assert first.retry_hint.reason == "invalid_arguments"
    second = await early[1].prepare({}, toolset.call("nonsense"), ToolCallMeta(run_id="run-1"))()
    assert second.error.message == "there is no tool `ops.test.nonsense`"


@pytest.mark.parametrize(
    ("transport", "reason"),
    [
        (mcp.Stdio("no-such-program-at-all"), "there is no such program"),
        (mcp.Http("http://127.0.0.1:9/"), "nothing answers at its address"),
        (mcp.Sse("http://127.0.0.1:9/"), "nothing answers at its address"),
    ],
    ids=repr,
)
async def test_the_reason_is_one_sentence(transport, reason, opened):
    """Whoever reads it learns what is wrong, without addresses."""
    toolset = await opened(transport)
    assert toolset.unavailable is not None
    assert toolset.unavailable.endswith(reason)
    assert "127.0.0.1" not in toolset.unavailable


async def test_closing_ends_the_process_and_its_children(opened, stdio, run, until):
    """Nothing that was started is left."""
    toolset = await opened(stdio())
    started = (await run(toolset, "child")).result
    assert psutil.pid_exists(started["own"])
    assert psutil.pid_exists(started["pid"])
    await toolset.close()
    await until(lambda: not is_running(started["own"]) and not is_running(started["pid"]))


async def test_a_process_that_will_not_end_is_killed(opened, rogue, until):
    """Neither the end of its input nor SIGTERM ends it; SIGKILL does, for its child too."""
    toolset = await opened(rogue("stubborn"))
    pids = [int(pid) for pid in toolset["good"].spec.description.split()]
    assert all(map(is_running, pids))
    await toolset.close()
    await until(lambda: not any(map(is_running, pids)))


async def test_a_toolset_can_be_opened_again(opened, stdio, run):
    """Closing is not for ever."""
    toolset = await opened(stdio())
    first = (await run(toolset, "counts")).result["pid"]
    await toolset.close()
    await toolset.open()
    assert (await run(toolset, "counts")).result["pid"] != first


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False

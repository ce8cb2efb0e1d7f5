"""Restarts: a server that goes is `tool_unavailable`, one that comes back is used again."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from sojourn import mcp
from sojourn.contracts.tool_call import ToolCallMeta
from sojourn.errors import ToolUnavailable
from sojourn.mcp import connection, stdio
from sojourn.mcp.connection import Connection
from sojourn.mcp.errors import SessionRefused


class Conversation:
    """A session in this process; its server has forgotten it where it is told so."""

    def __init__(self, number: int, story: list[str], *, is_forgotten: bool = False) -> None:
        self.lost = asyncio.Event()
        self._number = number
        self._story = story
        self._is_forgotten = is_forgotten
        self.breaks_off = False

    async def call(self, name: str, *_: object) -> str:
        if self._is_forgotten:
            self.lost.set()
            raise SessionRefused("forgotten")
        if self.breaks_off:
            raise ToolUnavailable("broke off")
        return f"{name} in session {self._number}"

    async def close(self) -> None:
        self._story.append(f"close {self._number}")


class Telling(Connection):
    """A connection that tells when it opens, lists and closes sessions, and reaches its server where it is up."""

    def __init__(self, *, is_up: bool = True, forgotten: int = 0) -> None:
        patience = timedelta(hours=1)
        super().__init__(
            "ops.test",
            mcp.Stdio("x"),
            ttl=patience,
            connect_timeout=patience,
            take_list=self._listed,
            on_drop=lambda *_: None,
        )
        self.is_up = is_up
        self.story: list[str] = []
        self._forgotten = forgotten

    async def _listed(self, _session: object) -> int:
        self.story.append("list")
        return 1

    async def _open_session(self) -> Any:
        number = sum(line.startswith("open") for line in self.story) + 1
        self.story.append(f"open {number}")
        if not self.is_up:
            raise ToolUnavailable("down")
        self._listed_at = time.monotonic()
        return Conversation(number, self.story, is_forgotten=number <= self._forgotten)


@pytest.fixture
async def telling() -> AsyncIterator[Callable[..., Telling]]:
    """Make connections; they are closed at the end."""
    made: list[Telling] = []

    def make(**options: Any) -> Telling:
        made.append(Telling(**options))
        return made[-1]

    yield make
    for each in made:
        await each.close()


async def test_the_old_session_ends_before_a_new_one_begins(telling):
    """A server may hold a lock, so there are never two of one toolset."""
    made = telling()
    (await made.session()).lost.set()
    await made.session()
    assert made.story == ["open 1", "close 1", "open 2"]
    await made.close()
    assert made.story[3:] == ["close 2"]


async def test_who_asks_just_after_a_failure_is_told_of_that_one(telling, monkeypatch):
    """Many calls of a server that is down are one attempt to reach it; a while later there is another."""
    monkeypatch.setattr(connection, "_COOL", 3_600.0)
    made = telling(is_up=False)
    for _ in range(3):
        with pytest.raises(ToolUnavailable, match="down"):
            await made.session()
    assert made.story == ["open 1"]
    monkeypatch.setattr(connection, "_COOL", 0.0)
    made.is_up = True
    await made.session()
    assert made.story == ["open 1", "open 2"]


async def test_a_forgotten_session_costs_one_more_attempt(telling):
    """A call that the server did not look at is sent once more, on a new session, and no oftener."""
    assert await telling(forgotten=1).send("echo", {}, None) == "echo in session 2"
    always = telling(forgotten=9)
    with pytest.raises(ToolUnavailable, match="closes each session"):
        await always.send("echo", {}, None)
    assert [line for line in always.story if line.startswith("open")] == ["open 1", "open 2"]


async def test_a_session_that_is_lost_at_once_is_opened_again_after_a_pause(telling, monkeypatch, until):
    """A server that dies as soon as it was listed is not started without end; one that lived for a while is, at once."""
    monkeypatch.setattr(connection, "_FIRST_DELAY", 3_600.0)
    for brief, further in ((3_600.0, []), (-1.0, ["close 1", "open 2"])):
        monkeypatch.setattr(connection, "_BRIEF", brief)
        made = telling()
        (await made.session()).lost.set()
        await until(lambda made=made: made._tried.is_set())
        for _ in range(20):
            await asyncio.sleep(0)
        await until(lambda made=made, further=further: len(made.story) > len(further))
        assert made.story == ["open 1", *further]


async def test_after_a_call_that_broke_off_the_tools_are_listed_again(telling, monkeypatch, until):
    """It may be that the server has changed the tool; a call that went well is no reason to ask."""
    monkeypatch.setattr(connection, "_CALM", 0.0)
    made = telling()
    session = await made.session()
    await until(made._tried.is_set)
    await made.send("echo", {}, None)
    assert not made._stale.is_set()
    session.breaks_off = True
    with pytest.raises(ToolUnavailable):
        await made.send("echo", {}, None)
    await until(lambda: "list" in made.story)
    assert made.story == ["open 1", "list"]


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
    calls = [asyncio.create_task(run(toolset, "slow", seconds=600)) for _ in range(5)]

    async def have_arrived() -> bool:
        return (await run(toolset, "counts")).result["slow"] == len(calls)

    await until(have_arrived)
    served.kill()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ToolUnavailable] * 5
    served.start()
    assert (await persist(toolset, "echo", a=1)).result == {"a": 1}


@pytest.fixture(scope="module")
async def shared() -> AsyncIterator[mcp.McpToolset]:
    """A toolset whose process the tests of this module may end."""
    server = str(Path(__file__).with_name("server.py"))
    made = mcp.McpToolset("ops.test", transport=mcp.Stdio(sys.executable, server, "stdio"))
    yield made
    await made.close()


@pytest.fixture
async def process(shared) -> mcp.McpToolset:
    """The shared toolset, open."""
    await shared.open()
    return shared


async def test_a_process_is_started_again(process, run, persist):
    """A server that crashes fails the call in flight; all who wait then get the same new process."""
    first = (await run(process, "counts")).result["pid"]
    with pytest.raises(ToolUnavailable):
        await run(process, "crash")
    results = await asyncio.gather(*(persist(process, "counts") for _ in range(20)))
    (second,) = {result.result["pid"] for result in results}
    assert second != first
    os.kill(second, signal.SIGKILL)
    third = (await persist(process, "counts")).result["pid"]
    assert third not in (first, second)


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


async def test_closing_ends_the_process_and_its_children(process, persist, until):
    """Nothing that was started is left."""
    started = (await persist(process, "child")).result
    assert psutil.pid_exists(started["own"])
    assert psutil.pid_exists(started["pid"])
    await process.close()
    await until(lambda: not is_running(started["own"]) and not is_running(started["pid"]))


async def test_a_process_that_will_not_end_is_killed(opened, rogue, until, monkeypatch):
    """Neither the end of its input nor SIGTERM ends it; SIGKILL does, for its child too."""
    monkeypatch.setattr(stdio, "_GRACE", 0.3)
    toolset = await opened(rogue("stubborn"))
    pids = [int(pid) for pid in toolset["good"].spec.description.split()]
    assert all(map(is_running, pids))
    await toolset.close()
    await until(lambda: not any(map(is_running, pids)))


async def test_a_toolset_can_be_opened_again(process, persist):
    """Closing is not for ever."""
    first = (await persist(process, "counts")).result["pid"]
    await process.close()
    await process.open()
    assert (await persist(process, "counts")).result["pid"] != first


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False

"""Connections: calls of a server that is down are `tool_unavailable`, and succeed when it is back."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from sojourn import mcp
from sojourn.contracts.tool_call import ToolCallMeta
from sojourn.errors import ToolUnavailable
from sojourn.mcp import connection, own_sessions, stdio
from sojourn.mcp.connection import ServerConnection
from sojourn.mcp.errors import SessionRefused


class FakeSession:
    """A session without a server; each call of a forgotten one is refused."""

    def __init__(self, number: int, events: list[str], *, is_forgotten: bool = False) -> None:
        self.lost = asyncio.Event()
        self._number = number
        self._events = events
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
        self._events.append(f"close {self._number}")


class RecordingConnection(ServerConnection):
    """A connection that records when it opens, lists and closes sessions; it opens them only while `is_up`."""

    def __init__(
        self,
        *,
        is_up: bool = True,
        forgotten: int = 0,
        ttl: timedelta = timedelta(hours=1),
        connect_timeout: timedelta = timedelta(hours=1),
    ) -> None:
        super().__init__(
            "ops.test",
            mcp.Stdio("x"),
            ttl=ttl,
            connect_timeout=connect_timeout,
            take_list=self._listed,
            on_drop=lambda *_: None,
        )
        self.is_up = is_up
        self.events: list[str] = []
        self._forgotten = forgotten

    async def _listed(self, _session: object) -> int:
        self.events.append("list")
        return 1

    async def _open_session(self) -> Any:
        number = sum(line.startswith("open") for line in self.events) + 1
        self.events.append(f"open {number}")
        if not self.is_up:
            raise ToolUnavailable("down")
        self._listed_at = time.monotonic()
        return FakeSession(number, self.events, is_forgotten=number <= self._forgotten)


@pytest.fixture
async def recording() -> AsyncIterator[Callable[..., RecordingConnection]]:
    """Make connections; they are closed after the test."""
    made: list[RecordingConnection] = []

    def make(**options: Any) -> RecordingConnection:
        made.append(RecordingConnection(**options))
        return made[-1]

    yield make
    for each in made:
        await each.close()


async def test_the_old_session_ends_before_a_new_one_begins(recording):
    """A toolset never has two sessions, since its server may hold a lock."""
    made = recording()
    (await made.session()).lost.set()
    await made.session()
    assert made.events == ["open 1", "close 1", "open 2"]
    await made.close()
    assert made.events[3:] == ["close 2"]


async def test_a_call_just_after_a_failure_gets_the_same_error(recording, monkeypatch):
    """Many calls of a server that is down make one attempt to connect; after `_COOL` seconds there is another."""
    monkeypatch.setattr(own_sessions, "_COOL", 3_600.0)
    made = recording(is_up=False)
    for _ in range(3):
        with pytest.raises(ToolUnavailable, match="down"):
            await made.session()
    assert made.events == ["open 1"]
    monkeypatch.setattr(own_sessions, "_COOL", 0.0)
    made.is_up = True
    await made.session()
    assert made.events == ["open 1", "open 2"]


async def test_a_forgotten_session_costs_one_more_attempt(recording):
    """A call that the server did not execute is sent once more, on a new session, and only once."""
    assert await recording(forgotten=1).send("echo", {}, None) == "echo in session 2"
    always = recording(forgotten=9)
    with pytest.raises(ToolUnavailable, match="closes each session"):
        await always.send("echo", {}, None)
    assert [line for line in always.events if line.startswith("open")] == ["open 1", "open 2"]


async def test_a_session_that_is_lost_at_once_is_opened_again_after_a_pause(recording, monkeypatch, until):
    """A session lost soon after a listing is opened again after a delay, a session lost later at once."""
    monkeypatch.setattr(connection, "_FIRST_DELAY", 3_600.0)
    for brief, further in ((3_600.0, []), (-1.0, ["close 1", "open 2"])):
        monkeypatch.setattr(connection, "_BRIEF", brief)
        made = recording()
        (await made.session()).lost.set()
        await until(lambda made=made: made._tried.is_set())
        for _ in range(20):
            await asyncio.sleep(0)
        await until(lambda made=made, further=further: len(made.events) > len(further))
        assert made.events == ["open 1", *further]


async def test_the_tools_are_listed_again_after_their_ttl(recording, monkeypatch, until):
    """A listing follows after a `ttl` of a millisecond, and none after the first moments of a day."""
    monkeypatch.setattr(connection, "_CALM", 0.0)
    daily, often = recording(ttl=timedelta(days=1)), recording(ttl=timedelta(milliseconds=1))
    for made in (daily, often):
        await made.session()
    await until(lambda: often.events.count("list") >= 3)
    assert daily.events == ["open 1"]


async def test_a_connection_that_hangs_does_not_stop_the_worker(recording, monkeypatch):
    """`open` returns after `connect_timeout` and `_CALM` seconds, whatever the attempt still waits for."""
    monkeypatch.setattr(connection, "_CALM", 0.05)
    made = recording(connect_timeout=timedelta(0))
    monkeypatch.setattr(made, "_open_session", asyncio.Event().wait)
    await made.open()
    assert not made._tried.is_set()


async def test_attempts_become_rarer_until_one_succeeds(recording, monkeypatch, until):
    """The delay doubles with each failed attempt; the next outage begins with the shortest delay again."""
    monkeypatch.setattr(own_sessions, "_COOL", 0.0)
    for name, value in (("_CALM", 0.0), ("_BRIEF", -1.0), ("_FIRST_DELAY", 0.001)):
        monkeypatch.setattr(connection, name, value)
    sleep, delays = asyncio.sleep, []

    async def record(seconds: float) -> None:
        delays.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr(connection, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": record}))
    monkeypatch.setattr(connection.random, "uniform", lambda *_: 1.0)
    made = recording(is_up=False)
    made.start()
    await until(lambda: len(delays) >= 4)
    made.is_up = True
    await until(lambda: made._held)
    outage = [each for each in delays if each]
    assert outage == [0.001 * 2**attempt for attempt in range(len(outage))]
    made.is_up = False
    made._held[-1].lost.set()
    await until(lambda: sum(map(bool, delays)) >= len(outage) + 2)
    assert [each for each in delays if each][len(outage) :][:2] == [0.001, 0.002]


async def test_after_a_call_that_broke_off_the_tools_are_listed_again(recording, monkeypatch, until):
    """A call that broke off causes a listing, since the tool may have changed; a successful call does not."""
    monkeypatch.setattr(connection, "_CALM", 0.0)
    made = recording()
    session = await made.session()
    await until(made._tried.is_set)
    await made.send("echo", {}, None)
    assert not made._stale.is_set()
    session.breaks_off = True
    with pytest.raises(ToolUnavailable):
        await made.send("echo", {}, None)
    await until(lambda: "list" in made.events)
    assert made.events == ["open 1", "list"]


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_a_server_restarts_between_calls(kind, serving, opened, run, persist, until):
    """A call after the restart is executed by the new server."""
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


@pytest.mark.essential
@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_a_server_dies_during_calls(kind, serving, opened, run, persist, until):
    """All calls in flight raise `ToolUnavailable` at once, and a repetition succeeds."""
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
async def shared(processes) -> AsyncIterator[mcp.McpToolset]:
    """A toolset whose process the tests of this module may end."""
    server = str(Path(__file__).with_name("rogue.py"))
    made = mcp.McpToolset("ops.test", transport=mcp.Stdio(sys.executable, server, "process"))
    yield made
    await made.close()


@pytest.fixture
async def process(shared) -> mcp.McpToolset:
    """The shared toolset, open."""
    await shared.open()
    return shared


@pytest.mark.essential
async def test_a_process_is_started_again(process, run, persist):
    """A crash fails the call in flight; all calls after it share one new process."""
    first = (await run(process, "pids")).result["own"]
    with pytest.raises(ToolUnavailable):
        await run(process, "crash")
    results = await asyncio.gather(*(persist(process, "pids") for _ in range(20)))
    (second,) = {result.result["own"] for result in results}
    assert second != first
    os.kill(second, signal.SIGKILL)
    third = (await persist(process, "pids")).result["own"]
    assert third not in (first, second)


async def test_a_server_that_is_down_does_not_stop_the_worker(serving, opened, run, until):
    """`open` returns without the server; calls are unavailable, and work as soon as the server is up."""
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
    """A stand-in uses the listed tool and its schema, or answers that there is no such tool."""
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
    """`unavailable` says what is wrong, without addresses."""
    toolset = await opened(transport)
    assert toolset.unavailable is not None
    assert toolset.unavailable.endswith(reason)
    assert "127.0.0.1" not in toolset.unavailable


@pytest.mark.usefixtures("processes")
async def test_a_program_is_looked_up_in_the_path_that_it_gets(opened, tmp_path):
    """A `PATH` in `env` says where the server's program is, not only what that program finds."""
    server = Path(__file__).with_name("server.py")
    program = tmp_path / "own-server"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{server}" stdio\n')
    program.chmod(0o755)
    toolset = await opened(mcp.Stdio("own-server", env={"PATH": str(tmp_path)}))
    assert toolset.unavailable is None
    assert "echo" in toolset.tools


async def test_closing_ends_the_process_and_its_children(process, persist, until):
    """No process of a closed toolset is left."""
    started = (await persist(process, "child")).result
    assert psutil.pid_exists(started["own"])
    assert psutil.pid_exists(started["child"])
    await process.close()
    await until(lambda: not is_running(started["own"]) and not is_running(started["child"]))


async def test_a_process_that_will_not_end_is_killed(opened, rogue, until, monkeypatch):
    """A process that survives the end of its input and SIGTERM is killed, with its child."""
    monkeypatch.setattr(stdio, "_GRACE", 0.3)
    toolset = await opened(rogue("stubborn"))
    pids = [int(pid) for pid in toolset["good"].spec.description.split()]
    assert all(map(is_running, pids))
    await toolset.close()
    await until(lambda: not any(map(is_running, pids)))


async def test_a_toolset_can_be_opened_again(process, persist):
    """A closed toolset starts a new process when it is opened again."""
    first = (await persist(process, "pids")).result["own"]
    await process.close()
    await process.open()
    assert (await persist(process, "pids")).result["own"] != first


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False

"""The check right before a tool, a planner or a notice begins: after a stall, the server is asked."""

import asyncio
import contextvars
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.api.workflowservice.v1 import RecordActivityTaskHeartbeatResponse
from temporalio.converter import DataConverter
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment

from activities.heartbeat import send_heartbeats
from sojourn.contracts.dispatch import WRONG_WORKER
from sojourn.serving.hardening import attempt as start_check
from sojourn.serving.hardening.attempt import NotWantedError, begin_in_thread, begin_work, still_wanted
from sojourn.serving.hardening.loop_watch import now, stalls_of
from sojourn.serving.hardening.lost_workers import Earlier
from sojourn.serving.hardening.threads import SyncThreads

WANTED = RecordActivityTaskHeartbeatResponse()
GONE = RPCError("no such task", RPCStatusCode.NOT_FOUND, b"")
AWAY = RPCError("no connection", RPCStatusCode.UNAVAILABLE, b"")


class Server:
    """A Temporal server that gives these answers to heartbeats, the last one to all that follow."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.beats: list[Any] = []

    async def record_activity_task_heartbeat(self, request: Any, **_options: Any) -> Any:
        self.beats.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, RPCError):
            raise answer
        return answer


def stall() -> None:
    """Let the present loop have stalled until now."""
    stalls_of(asyncio.get_running_loop())._last = now()


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(start_check, "ASK_AGAIN", 0.001)
    monkeypatch.setattr(start_check, "CANCELING", 0.001)


@pytest.fixture(params=["async", "thread"])
def attempt(request):
    """Begin a tool in an attempt, async or in a thread; return how often it began."""
    threads = SyncThreads()

    async def begin(server: Server, *, lost: int = 0, before=lambda: None, local: bool = False) -> list[str]:
        client: Any = SimpleNamespace(
            workflow_service=server, identity="w", data_converter=DataConverter.default
        )
        environment = ActivityEnvironment(client=client)
        environment.info = replace(environment.info, is_local=local)
        began: list[str] = []

        async def body() -> None:
            with send_heartbeats(earlier=Earlier(lost=lost)):
                before()
                if request.param == "thread":
                    await threads.run("a.b.c", begin_in_thread(lambda: began.append("sync")))
                else:
                    await begin_work(tool)

        async def tool() -> None:
            began.append("async")

        try:
            await environment.run(body)
        except NotWantedError:
            assert began == []
            raise
        return began

    return begin


async def test_without_a_stall_nothing_is_sent(attempt):
    """The usual call costs no request."""
    server = Server(WANTED)
    assert len(await attempt(server)) == 1
    assert server.beats == []


@pytest.mark.parametrize("lost", [0, 1])
async def test_after_a_stall_a_wanted_attempt_begins(attempt, lost):
    """The server is asked once; the number of lost workers stays in the heartbeat."""
    server = Server(WANTED)
    assert len(await attempt(server, lost=lost, before=stall)) == 1
    assert [len(beat.details.payloads) for beat in server.beats] == [lost]


async def test_after_a_stall_an_attempt_that_another_worker_has_does_not_begin(attempt):
    """The server has given the attempt up, before or after the activity began."""
    server = Server(GONE)
    stall()
    with pytest.raises(NotWantedError, match="given this attempt up"):
        await attempt(server)
    with pytest.raises(NotWantedError, match="given this attempt up"):
        await attempt(server, before=stall)
    assert len(server.beats) == 2


@pytest.mark.parametrize("why", ["cancel_requested", "activity_paused", "activity_reset"])
async def test_after_a_stall_a_canceled_attempt_does_not_begin(attempt, why):
    """An attempt that the server wants to end does not begin."""
    with pytest.raises(NotWantedError):
        await attempt(Server(RecordActivityTaskHeartbeatResponse(**{why: True})), before=stall)


async def test_while_the_server_is_away_nothing_begins(attempt):
    """An attempt that nobody can judge waits for the server."""
    server = Server(AWAY, AWAY, WANTED)
    assert len(await attempt(server, before=stall)) == 1
    assert len(server.beats) == 3
    with pytest.raises(NotWantedError):
        await attempt(Server(AWAY, GONE), before=stall)


async def test_a_local_activity_moves_to_an_ordinary_one(attempt):
    """Nobody can be asked about a local activity, whose workflow task may be another worker's."""
    server = Server(WANTED)
    with pytest.raises(NotWantedError) as refused:
        await attempt(server, before=stall, local=True)
    assert (refused.value.type, refused.value.non_retryable) == (WRONG_WORKER, True)
    assert server.beats == []


async def test_a_stall_while_the_server_answers_is_asked_about_too(attempt):
    """An answer from before a stall says nothing about the time after it."""

    class Slow(Server):
        async def record_activity_task_heartbeat(self, request: Any, **options: Any) -> Any:
            if not self.beats:
                asyncio.get_running_loop().call_soon(stall)
                await asyncio.sleep(0.01)
            return await super().record_activity_task_heartbeat(request, **options)

    with pytest.raises(NotWantedError):
        await attempt(Slow(WANTED, GONE), before=stall)


async def test_a_thread_that_comes_too_late_begins_nothing():
    """A call that has its result, such as a time-out, does not begin in the thread that takes it afterwards."""
    began, late = [], []

    async def body() -> None:
        with send_heartbeats():
            late.append(begin_in_thread(lambda: began.append(1)))
            context.append(contextvars.copy_context())

    context: list[Any] = []
    await ActivityEnvironment().run(body)
    with pytest.raises(NotWantedError):
        await asyncio.to_thread(context[0].run, late[0])
    assert began == []


async def test_outside_an_activity_nothing_is_asked():
    """A model that a program uses by itself has nobody to ask."""
    await still_wanted()

"""Worker: what it opened is closed, also when it cannot start."""

import asyncio
import threading
import uuid

import pytest
import temporalio.client
from temporalio import activity
from temporalio.worker import Interceptor, WorkflowInboundInterceptor

import sojourn.worker
from sojourn import Agent, App, Client, PlanResult, Toolset, Turn, Worker, data_converter
from sojourn.errors import DefinitionError
from sojourn.live import LocalTransport
from sojourn.testing import ScriptedPlanner


class Live(LocalTransport):
    """A transport that records whether it was closed."""

    is_closed = False

    async def close(self) -> None:
        self.is_closed = True


class Half(App):
    """An app of which a part cannot be opened."""

    async def open(self) -> None:
        await super().open()
        raise OSError("no such device")


@pytest.mark.parametrize("how", ["run", "context"])
async def test_an_app_that_cannot_be_opened_is_closed(temporal_address: str, how: str) -> None:
    """The parts that were opened before the failure are closed, and the failure is raised."""

    async def plan(_turn: object) -> PlanResult:
        return PlanResult.final("done")

    live = Live()
    app = Half(agents=[Agent("test.agent", planner=plan)], live=live)
    worker = Worker(app, await Client.connect(temporal_address))
    with pytest.raises(OSError, match="no such device"):
        await (worker.run() if how == "run" else worker.__aenter__())
    assert live.is_closed


async def test_a_worker_whose_start_is_canceled_is_closed(temporal_address: str, monkeypatch) -> None:
    """A block that is canceled before its worker is seen polling leaves no worker and no open part of the app."""
    looked = asyncio.Event()

    async def has_no_poller(*_: object) -> bool:
        looked.set()
        return False

    async def plan(_turn: object) -> PlanResult:
        return PlanResult.final("done")

    monkeypatch.setattr(sojourn.worker, "has_poller", has_no_poller)
    live = Live()
    app = App(agents=[Agent("test.agent", planner=plan)], live=live)
    worker = Worker(app, await Client.connect(temporal_address), task_queue=f"q-{uuid.uuid4().hex[:8]}")
    entering = asyncio.ensure_future(worker.__aenter__())
    await looked.wait()
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    assert (live.is_closed, worker._worker.is_shutdown) == (True, True)


async def test_the_calls_of_a_step_start_on_the_worker_that_has_the_run(temporal_address: str) -> None:
    """A step of 32 calls is carried out by the worker that planned it, though another one serves the queue too."""
    tools, seen = Toolset("test.tools"), dict[str, int]()

    @tools.tool
    async def who(n: int) -> str:
        """Return the worker's identity."""
        identity = activity.client().identity
        seen[identity] = seen.get(identity, 0) + 1
        return f"{identity} {n}"

    calls = PlanResult.calls(*(who.call(n=n) for n in range(32)))
    planner = ScriptedPlanner([calls, PlanResult.final("done")])
    app = App(agents=[Agent("test.agent", planner=planner, uses=[tools])])
    queue = f"q-{uuid.uuid4().hex[:8]}"
    one, two = [
        await temporalio.client.Client.connect(temporal_address, data_converter=data_converter, identity=name)
        for name in ("one", "two")
    ]
    async with Worker(app, one, task_queue=queue), Worker(app, two, task_queue=queue):
        await Client(one, task_queue=queue).execute("test.agent", "go")
    assert list(seen.values()) == [32]


async def test_a_fair_worker_takes_calls_from_the_queue_and_no_more_than_it_may(
    temporal_address: str, monkeypatch
) -> None:
    """With `SOJOURN_FAIR` the calls of a step go by the server, so that each of two workers has as many at once as it may."""
    monkeypatch.setenv("SOJOURN_FAIR", "1")
    tools, running, most = Toolset("test.tools"), dict[str, int](), dict[str, int]()
    both_full = asyncio.Event()

    @tools.tool
    async def hold(n: int) -> int:
        """Wait until both workers are full."""
        identity = activity.client().identity
        running[identity] = running.get(identity, 0) + 1
        most[identity] = max(most.get(identity, 0), running[identity])
        if sum(running.values()) == 7:
            both_full.set()
        await both_full.wait()
        running[identity] -= 1
        return n

    calls = PlanResult.calls(*(hold.call(n=n) for n in range(20)))
    planner = ScriptedPlanner([calls, PlanResult.final("done")])
    app = App(agents=[Agent("test.agent", planner=planner, uses=[tools])])
    queue = f"q-{uuid.uuid4().hex[:8]}"
    one, two = [
        await temporalio.client.Client.connect(temporal_address, data_converter=data_converter, identity=name)
        for name in ("one", "two")
    ]
    monkeypatch.setenv("SOJOURN_MAX_ACTIVITIES", "4")
    with_setting = Worker(app, one, task_queue=queue)
    async with with_setting, Worker(app, two, task_queue=queue, max_activities=3):
        await Client(one, task_queue=queue).execute("test.agent", "go")
    assert most == {"one": 4, "two": 3}


@pytest.mark.parametrize("value", ["0", "-1", "many", "1e3", "100000"])
async def test_a_worker_has_a_number_of_activities(temporal_address: str, monkeypatch, value) -> None:
    """Any other setting is refused before the worker polls, as is a `SOJOURN_FAIR` that is neither on nor off."""
    app = App(agents=[Agent("test.agent", planner=ScriptedPlanner([]))])
    client = await Client.connect(temporal_address)
    monkeypatch.setenv("SOJOURN_MAX_ACTIVITIES", value)
    with pytest.raises(DefinitionError, match="SOJOURN_MAX_ACTIVITIES"):
        Worker(app, client)
    monkeypatch.delenv("SOJOURN_MAX_ACTIVITIES")
    monkeypatch.setenv("SOJOURN_FAIR", f"{value}x")
    with pytest.raises(DefinitionError, match="SOJOURN_FAIR must be 1 or 0"):
        Worker(app, client)


async def test_a_small_workflow_task_runs_on_the_loop_and_a_large_one_in_a_thread(
    temporal_address: str,
) -> None:
    """A run's workflow begins in the loop's thread, or with a large message in a thread of the executor; both runs end alike."""
    began: list[str] = []

    class Noting(temporalio.client.Interceptor, Interceptor):
        def workflow_interceptor_class(self, _input: object) -> type[WorkflowInboundInterceptor]:
            class Noted(WorkflowInboundInterceptor):
                async def execute_workflow(self, input: object) -> object:
                    began.append(threading.current_thread().name)
                    return await super().execute_workflow(input)

            return Noted

    async def plan(turn: Turn) -> PlanResult:
        return PlanResult.final(f"{len(turn.messages[0].text)} characters")

    app = App(agents=[Agent("test.agent", planner=plan)])
    connected = await temporalio.client.Client.connect(
        temporal_address, data_converter=data_converter, interceptors=[Noting()]
    )
    queue = f"q-{uuid.uuid4().hex[:8]}"
    async with Worker(app, connected, task_queue=queue):
        client = Client(connected, task_queue=queue)
        texts = [(await client.execute("test.agent", "x" * size)).text for size in (100, 100_000)]
    assert texts == ["100 characters", "100000 characters"]
    assert began[0] == threading.current_thread().name
    assert began[1].startswith("temporal_workflow_")

"""Fixtures: an app served by a real worker on a real server, and what a run recorded there."""

import asyncio
import gc
import os
import random
import signal
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.common import RawValue
from temporalio.worker._workflow import _WorkflowWorker

from sojourn import Agent, App, Client, Message, Run, RunPolicy, RunStatus, Toolset, Worker
from sojourn.core.values.wire import decode_messages
from sojourn.logs.configure import lead_to_logging
from sojourn.server import Server
from tests.failed_tasks import failed_tasks

hypothesis.settings.register_profile(
    "busy", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("busy")  # other tests run at the same time: an example's time proves nothing

lead_to_logging()  # before any test captures logs: a bound logger keeps the configuration it was bound with

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # in a shell's background job, whose child processes would ignore Ctrl-C too
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ["SOJOURN_MODEL"] = "off"  # the environment may hold a provider's key


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--shuffle`: no test may depend on the tests before it."""
    parser.addoption("--shuffle", metavar="SEED", help="Run the tests in an order that follows from SEED.")


@pytest.hookimpl(tryfirst=True)  # before pytest groups the tests that share a fixture's parameter
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffle the modules, and the tests within each; a fixture of a module is still set up once."""
    if (seed := config.getoption("--shuffle")) is None:
        return
    dice, modules = random.Random(seed), {}
    for item in items:
        modules.setdefault(item.nodeid.partition("::")[0], []).append(item)
    order = list(modules.values())
    dice.shuffle(order)
    for tests in order:
        dice.shuffle(tests)
    items[:] = [item for tests in order for item in tests]


PATIENCE = 60.0
"""Seconds until a condition that is still false fails the test."""

Serve = Callable[..., Awaitable[Client]]


def pytest_collection_finish() -> None:
    """Exclude the collected tests from garbage collection, which would scan thousands of them repeatedly."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def patient_workers() -> Iterator[None]:
    """Let a workflow task take a minute: on a busy machine Temporal's two seconds are too short."""
    begin = _WorkflowWorker.__init__

    def begin_patiently(self: _WorkflowWorker, **settings: Any) -> None:
        begin(self, **settings)
        self._deadlock_timeout_seconds = PATIENCE

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_WorkflowWorker, "__init__", begin_patiently)
        yield


@pytest.fixture(scope="session")
def temporal_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that keeps its data in memory, which takes a quarter less time; none of these tests restarts it."""
    log = tmp_path_factory.mktemp("temporal") / "temporal.log"
    server = Server(log_filename=log, port=0, ui=False, attach=False, on_progress=print)
    with asyncio.Runner() as runner:
        runner.run(server.start())
        try:
            yield server
        finally:
            runner.run(server.stop(grace=timedelta(0)))


@pytest.fixture
async def serve(temporal_address: str) -> AsyncIterator[Serve]:
    """Serve an app, or an agent made of a planner and toolsets, on its own task queue; returns its client."""
    async with AsyncExitStack() as stack:

        async def start(
            app: App | None = None,
            *,
            planner=None,
            uses: tuple[Toolset, ...] = (),
            policy: RunPolicy | None = None,
            **connecting: Any,
        ) -> Client:
            if app is None:
                app = App(agents=[Agent("test.agent", planner=planner, uses=list(uses), policy=policy)])
            queue = f"q-{uuid.uuid4().hex[:8]}"
            client = await Client.connect(temporal_address, task_queue=queue, **connecting)
            await stack.enter_async_context(Worker(app, client))
            return client

        yield start


@pytest.fixture
def shell(temporal_server: Server, tmp_path: Path) -> Callable[[str], Awaitable[tuple[int | None, str]]]:
    """Run a line in bash with Temporal's CLI on the path; returns the exit status, and stdout and stderr together."""
    folder = tmp_path / "bin"
    folder.mkdir()
    assert temporal_server.cli
    (folder / "temporal").symlink_to(temporal_server.cli.path)
    environment = {
        "HOME": str(tmp_path),
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "TEMPORAL_ADDRESS": temporal_server.address,
    }

    async def execute(line: str) -> tuple[int | None, str]:
        process = await asyncio.create_subprocess_exec(
            "bash",
            "-c",
            line,
            env=environment,
            cwd=tmp_path,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        printed, _ = await process.communicate()
        return process.returncode, printed.decode()

    return execute


class Traces:
    """What a run recorded on the server."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.handle = run.client.temporal.get_workflow_handle(run.id)

    async def history(self) -> Sequence[HistoryEvent]:
        """Every event of the history."""
        return [event async for event in self.handle.fetch_history_events()]

    async def count(self, kind: EventType) -> int:
        """How many history events there are of one type."""
        return sum(event.event_type == kind for event in await self.history())

    async def failed_tasks(self) -> list[str]:
        """Cause and message of each failed workflow task; see `failed_tasks`."""
        return failed_tasks(await self.history())

    async def transcript(self) -> list[Message]:
        """The transcript, read by queries for one slice after another."""
        data, more = b"", True
        while more:
            part = await self.handle.query("transcript", args=[0, None, len(data)], result_type=RawValue)
            data += part.payload.data
            more = part.payload.metadata["encoding"] != b"json/plain" and len(part.payload.data) == 1_500_000
        return decode_messages(data)

    async def check(self) -> list[Message]:
        """Assert that no workflow task failed and that each call was answered exactly once; returns the transcript."""
        assert await self.failed_tasks() == []
        messages = await self.transcript()
        asked = [call.tool_call_id for message in messages for call in message.tool_calls]
        answered = [result.tool_call_id for message in messages for result in message.tool_results]
        assert answered == asked
        assert len(set(asked)) == len(asked)
        return messages


@pytest.fixture
def traces() -> type[Traces]:
    """Look at what a run recorded: `traces(run)`."""
    return Traces


@pytest.fixture
def until() -> Callable[..., Awaitable[Any]]:
    """Wait until a condition, sync or async, is true; returns its value."""

    async def wait(condition: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + PATIENCE
        while True:
            value = condition()
            value = await value if asyncio.iscoroutine(value) else value
            if value:
                return value
            assert time.monotonic() < deadline, "the condition did not come true"
            await asyncio.sleep(0.02)

    return wait


@pytest.fixture
def status_when(until) -> Callable[..., Awaitable[RunStatus]]:
    """Wait until a run's status meets a condition, such as `lambda status: status.awaits`; returns that status."""

    async def wait(run: Run, fits: Callable[[RunStatus], Any]) -> RunStatus:
        async def current() -> RunStatus | None:
            status = await run.status()
            return status if fits(status) else None

        return await until(current)

    return wait

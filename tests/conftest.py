"""Fixtures: an app served by a real worker on a real server, and a run's history and transcript."""

import asyncio
import gc
import os
import random
import signal
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import pytest_timeout
import temporalio.worker
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.common import RawValue
from temporalio.worker._workflow import _WorkflowWorker

from sojourn import Agent, App, Client, Message, Run, RunPolicy, RunStatus, Toolset, Worker
from sojourn.client.access import backoff
from sojourn.logs.configure import lead_to_logging
from sojourn.server import Server
from sojourn.values.wire import decode_messages, encode
from tests.chain import history_of
from tests.failed_tasks import failed_tasks
from tests.layers import LAYERS, MISPLACED, is_program_free, is_served, layer_of, watch, watched

hypothesis.settings.register_profile(
    "busy", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("busy")  # tests run in parallel: an example's duration says nothing

gc.disable()  # collection makes many objects and drops few; `pytest_collection` enables it again

lead_to_logging()  # before any test captures logs: a bound logger keeps the configuration it was bound with

# A background job of a shell ignores SIGINT, and so would the programs that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ["SOJOURN_MODEL"] = "off"  # the environment may have a provider's key

# Each process of tests has its own server, and all share the same cores: one thread of Go does not look for work in vain.
os.environ.setdefault("GOMAXPROCS", "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--shuffle`: no test may depend on what another one leaves behind."""
    parser.addoption("--shuffle", metavar="SEED", help="Run the tests in an order that follows from SEED.")
    parser.addoption("--rest", action="store_true", help="Skip files whose tests start no program.")
    parser.addoption(
        "--pure", action="store_true", help="Skip files whose tests all need a server or a program."
    )


FIRST = ("durability", "deploy", "docs", "screens", "planners", "mcp", "models")
"""Folders with the longest files, in this order. They begin first, so that no process is left with one at the end."""

LAST = ("contracts", "core")
"""Folders with short tests only."""


def pytest_configure(config: pytest.Config) -> None:
    """Declare the layers, and watch the programs that tests start."""
    for layer, need in LAYERS.items():
        config.addinivalue_line("markers", f"{layer}: {need}")
    watch()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Enable garbage collection after the tests are collected, also in the process that only distributes them."""
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip files none of whose tests are asked for, by `--rest` and `--pure`."""
    if not collection_path.match("test_*.py"):
        return None
    if config.getoption("--rest") and is_program_free(collection_path):
        return True
    return True if config.getoption("--pure") and is_served(collection_path) else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Let only tests of the layers that say so start programs."""
    with watched(refuses=layer_of(fixtures_of(item)) in {"pure", "server"}):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer() -> Generator[None, Any, Any]:
    """Repeat the alarm of a test that takes too long.

    asyncio keeps the error that it raises for the task whose step it interrupts, and the test would wait for ever.
    """
    done = yield
    limit, _ = signal.getitimer(signal.ITIMER_REAL)
    if limit:
        signal.setitimer(signal.ITIMER_REAL, limit, ALARMS_APART)
    return done


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """Limit the time that a failed test takes to end, too: pytest-timeout stops its timer at the failure."""
    hooks, settings = item.config.pluginmanager.hook, pytest_timeout._get_item_settings(item)
    if settings.timeout:
        hooks.pytest_timeout_set_timer(item=item, settings=settings)
    try:
        return (yield)
    finally:
        hooks.pytest_timeout_cancel_timer(item=item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say of a test that took too long what each task of its event loop waits for, and end the test's own."""
    report = yield
    if call.excinfo is not None and "from pytest-timeout" in str(call.excinfo.value):
        loops = [each for each in gc.get_objects() if isinstance(each, asyncio.AbstractEventLoop)]
        tasks = [task for loop in loops for task in asyncio.all_tasks(loop)]
        report.sections.append(("What the tasks wait for", "\n".join(_waits(tasks))))
        own = getattr(getattr(item, "function", None), "__code__", None)
        for task in tasks:
            if own and getattr(task.get_coro(), "cr_code", None) is own:
                task.cancel()  # it would go on beside the next tests
    return report


def _waits(tasks: Sequence[asyncio.Task[Any]]) -> Iterator[str]:
    for task in tasks:
        yield f"{task.get_name()}:"
        waiting: Any = task.get_coro()
        while frame := getattr(waiting, "cr_frame", None) or getattr(waiting, "ag_frame", None):
            yield f"  {frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}"
            waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "ag_await", None)


def fixtures_of(item: pytest.Item) -> Sequence[str]:
    """The names of the fixtures that a test uses, and that these use."""
    return item.fixturenames if isinstance(item, pytest.Function) else ()


@pytest.fixture(scope="session")
def processes() -> None:
    """Every fixture and test that starts a program uses this one, which puts the test into the layer `process`."""


@pytest.fixture(scope="session")
def campaigns() -> None:
    """Every test that kills or counts programs for long uses this one, which puts it into the layer `campaign`."""


@pytest.hookimpl(tryfirst=True)  # before pytest groups tests by parameters of fixtures
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the longest files; or shuffle modules, and the tests in each, so that a module's fixtures are made once."""
    modules: dict[str, list[pytest.Item]] = {}
    for item in items:
        modules.setdefault(item.nodeid.partition("::")[0], []).append(item)
    order = sorted(modules.items(), key=lambda module: _rank(module[0]))
    if (seed := config.getoption("--shuffle")) is not None:
        dice = random.Random(seed)
        dice.shuffle(order)
        for _, tests in order:
            dice.shuffle(tests)
    items[:] = [item for _, tests in order for item in tests]
    for item in items:
        item.add_marker(layer_of(fixtures_of(item)))
    MISPLACED[:] = [item.nodeid for item in items if _is_misplaced(item)]


def _is_misplaced(item: pytest.Item) -> bool:
    layer = layer_of(fixtures_of(item))
    if layer == "pure":
        return is_served(item.path)
    return layer != "server" and not item.get_closest_marker("essential") and is_program_free(item.path)


def _rank(path: str) -> int:
    folder = path.split("/")[1]
    return FIRST.index(folder) - len(FIRST) if folder in FIRST else folder in LAST


ALARMS_APART = 5.0
"""Seconds between two alarms for a test that takes too long."""

PATIENCE = 60.0
"""Seconds to wait for a condition, and the most that a workflow task may take."""

Serve = Callable[..., Awaitable[Client]]


def pytest_collection_finish() -> None:
    """Exempt the collected tests, which are thousands, from every later garbage collection.

    What is garbage by now stays: to find it takes each process a second of CPU.
    """
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def patient_workers() -> Iterator[None]:
    """Let a workflow task take `PATIENCE`: on a busy machine it may exceed the SDK's deadlock time-out of 2 s."""
    begin = _WorkflowWorker.__init__

    def begin_patiently(self: _WorkflowWorker, **settings: Any) -> None:
        begin(self, **settings)
        self._deadlock_timeout_seconds = PATIENCE

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_WorkflowWorker, "__init__", begin_patiently)
        yield


POLLS = 2
"""Polls of a test's worker at once, of each kind: three more of each cost a tenth of a short run."""


@pytest.fixture(scope="session", autouse=True)
def few_polls() -> Iterator[None]:
    """Let a worker of this process poll with two requests at once; those of programs poll as in production."""
    begin = temporalio.worker.Worker.__init__

    def begin_with_few(self: temporalio.worker.Worker, *arguments: Any, **settings: Any) -> None:
        few = {"max_concurrent_workflow_task_polls": POLLS, "max_concurrent_activity_task_polls": POLLS}
        begin(self, *arguments, **(few | settings))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(temporalio.worker.Worker, "__init__", begin_with_few)
        yield


@pytest.fixture(scope="session")
def temporal_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A tuned server with its data in memory, which costs a quarter less; no test restarts it."""
    log = tmp_path_factory.mktemp("temporal") / "temporal.log"
    server = Server(log_filename=log, port=0, ui=False, attach=False, on_progress=print)
    with asyncio.Runner() as runner:
        with watched(refuses=False):
            runner.run(server.start())
        try:
            yield server
        finally:
            runner.run(server.stop(grace=timedelta(0)))


@pytest.fixture
def no_storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let this process find no storage of the development server."""
    with tempfile.TemporaryDirectory() as empty:  # its path is short, as that of a runtime folder must be
        monkeypatch.setenv("XDG_RUNTIME_DIR", empty)
        yield


DRAIN = timedelta(seconds=1)
"""How long a test's worker waits, at its end, for calls that hang by purpose."""


@pytest.fixture
async def serve(temporal_address: str) -> AsyncIterator[Serve]:
    """Start a worker for an app, or for `test.agent` of a planner and toolsets, on a queue of its own; return a client."""
    async with AsyncExitStack() as stack:

        async def start(
            app: App | None = None,
            *,
            planner=None,
            uses: tuple[Toolset, ...] = (),
            policy: RunPolicy | None = None,
            address: str = temporal_address,
            **connecting: Any,
        ) -> Client:
            if app is None:
                app = App(agents=[Agent("test.agent", planner=planner, uses=list(uses), policy=policy)])
            queue = f"q-{uuid.uuid4().hex[:8]}"
            client = await Client.connect(address, task_queue=queue, **connecting)
            await stack.enter_async_context(Worker(app, client, drain=DRAIN))
            return client

        yield start


@pytest.fixture
def shell(
    processes, temporal_server: Server, tmp_path: Path
) -> Callable[[str], Awaitable[tuple[int | None, str]]]:
    """Run a line in bash, with `temporal` on its path; return the exit status, and stdout and stderr together."""
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
    """The history and the transcript of a run, as the server has them."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.handle = run.client.temporal.get_workflow_handle(run.id)

    async def history(self) -> Sequence[HistoryEvent]:
        """Every event of the history."""
        return await history_of(self.run.client.temporal, self.run.id)

    async def count(self, kind: EventType) -> int:
        """Number of history events of one type."""
        return sum(event.event_type == kind for event in await self.history())

    async def failed_tasks(self) -> list[str]:
        """Cause and message of each failed workflow task."""
        return failed_tasks(await self.history())

    async def transcript(self) -> list[Message]:
        """The transcript, queried in slices of 1,500,000 bytes."""
        data, more = b"", True
        while more:
            part = await self.handle.query("transcript", args=[0, None, len(data)], result_type=RawValue)
            data += part.payload.data
            more = part.payload.metadata["encoding"] != b"json/plain" and len(part.payload.data) == 1_500_000
        if data.startswith(b"{"):
            return await self.run.transcript()  # its beginning is in external storage
        return decode_messages(data)

    async def check(self, received: list[Message] | None = None) -> list[Message]:
        """Assert that no workflow task failed and that each call has one result, in order; return the transcript.

        `received` is what the planner of a large run received last: the first slice of the query must equal its
        beginning. To query all slices of a closed run replays it for each.
        """
        assert await self.failed_tasks() == []
        if received is None:
            messages = await self.transcript()
        else:
            messages = received
            part = await self.handle.query("transcript", args=[0, len(messages), 0], result_type=RawValue)
            if part.payload.data.startswith(b"{"):
                assert (await self.run.transcript())[: len(messages)] == messages
            else:
                assert encode(messages).startswith(part.payload.data)
        asked = [call.tool_call_id for message in messages for call in message.tool_calls]
        answered = [result.tool_call_id for message in messages for result in message.tool_results]
        assert answered == asked
        assert len(set(asked)) == len(asked)
        return messages


@pytest.fixture
def traces() -> type[Traces]:
    """Read a run's history and transcript: `traces(run)`."""
    return Traces


@pytest.fixture
def until() -> Callable[..., Awaitable[Any]]:
    """Wait until a condition, sync or async, is true, and return its value."""

    async def wait(condition: Callable[[], Any]) -> Any:
        deadline, delays = time.monotonic() + PATIENCE, backoff(0.1)
        while True:
            value = condition()
            value = await value if asyncio.iscoroutine(value) else value
            if value:
                return value
            assert time.monotonic() < deadline, "the condition did not come true"
            await asyncio.sleep(next(delays))

    return wait


@pytest.fixture
def status_when(until) -> Callable[..., Awaitable[RunStatus]]:
    """Wait until a run's status fits, such as `lambda status: status.awaits`, and return the status."""

    async def wait(run: Run, fits: Callable[[RunStatus], Any]) -> RunStatus:
        async def current() -> RunStatus | None:
            status = await run.status()
            return status if fits(status) else None

        return await until(current)

    return wait

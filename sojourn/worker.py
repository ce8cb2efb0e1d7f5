"""Worker: serves the runs of an app on one task queue, until told to stop.

The durable shell (`workflows/`, `activities/`) is found by `shell()`, whichever way Sojourn is
installed; nothing else knows where it is.
"""

import asyncio
import contextlib
import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

import structlog
import temporalio.client
import temporalio.worker

import sojourn
from sojourn import search_attributes
from sojourn.connection import settings
from sojourn.connection.connect import connect
from sojourn.errors import ServerUnavailable
from sojourn.logs import configure_logs
from sojourn.logs.activities import ActivityLogs
from sojourn.logs.configure import lead_to_logging
from sojourn.logs.core import logging_runtime, stop_core_logging
from sojourn.serving.cached_runs import CachedRuns
from sojourn.serving.loop_guard import SIGNALS, Stop, endure
from sojourn.serving.quiet_end import end_quietly
from sojourn.serving.registration import Registered
from sojourn.serving.served import Served
from sojourn.telemetry import missing_interceptors
from sojourn.telemetry.prometheus import runtime_with_metrics

__all__ = ["Shell", "Worker", "serve", "serve_forever", "shell"]

DRAIN = timedelta(seconds=30)
"""How long activities in flight may go on after a stop; then another worker takes them over."""

MAX_ACTIVITIES = 500
"""Activities at once: a waiting model call is cheap. Limits by kind sit inside the activities."""

MAX_CACHED_RUNS = 2_000
"""Runs kept in memory; with fewer than there are active, every step replays its history."""

MAX_CACHED_BYTES = 256_000_000
"""What the runs in memory may take together; 170 whose transcripts of 1.5 MB do not compress."""

HEARTBEAT_THROTTLE = timedelta(seconds=2)
"""So that a cancellation reaches a tool with its next beat."""

STICKY = timedelta(seconds=2)
"""What an answer waits for after the worker that knew the run was killed; the SDK's default is 10 s."""

_log = structlog.get_logger("sojourn.worker")


@dataclass(frozen=True, slots=True)
class Shell:
    """The Temporal definitions of Sojourn, for an app."""

    workflows: Sequence[type]
    activities: Sequence[Any]


def shell(app: Served) -> Shell:
    """The workflow and the activities, from the wheel's `sojourn.service` or from a source tree."""
    try:
        importlib.import_module("sojourn.service")
        prefix = "sojourn.service."
    except ModuleNotFoundError:
        prefix = ""
    agent_run = importlib.import_module(f"{prefix}workflows.agent_run")
    plan = importlib.import_module(f"{prefix}activities.plan")
    execute_tool = importlib.import_module(f"{prefix}activities.execute_tool")
    first_time = importlib.import_module(f"{prefix}activities.first_time").FirstTime()
    return Shell(
        workflows=[agent_run.AgentRun],
        activities=[
            plan.PlanActivity(app, first_time=first_time).plan,
            execute_tool.ExecuteToolActivity(app, first_time=first_time).execute_tool,
        ],
    )


class Worker:
    """Serves an app; use as an async context manager, or `await worker.run()`.

    Args:
        app: What to serve.
        client: A Temporal client with `sojourn.data_converter`, or a `sojourn.Client`.
        task_queue: Where to look for work; the client's queue, else `sojourn`.
        drain: How long activities in flight may go on after a stop.
        max_cached_runs: Runs kept in memory.
        max_cached_bytes: What they may take together, by their transcripts.
    """

    def __init__(
        self,
        app: Served,
        client: Any,
        *,
        task_queue: str | None = None,
        drain: timedelta = DRAIN,
        max_cached_runs: int = MAX_CACHED_RUNS,
        max_cached_bytes: int = MAX_CACHED_BYTES,
    ) -> None:
        end_quietly()
        lead_to_logging()
        temporal: temporalio.client.Client = getattr(client, "temporal", client)
        found = shell(app)
        self._app = app
        self.task_queue = settings.task_queue(task_queue or getattr(client, "task_queue", None))
        self._opened = asyncio.Event()
        self._temporal = temporal
        self._registered = Registered()
        self._cached = CachedRuns(max_cached_bytes)
        self._watching = contextlib.AsyncExitStack()
        self._worker = temporalio.worker.Worker(
            temporal,
            task_queue=self.task_queue,
            workflows=found.workflows,
            activities=found.activities,
            interceptors=[
                *missing_interceptors(temporal.config()["interceptors"]),
                ActivityLogs(),
                self._registered,
                self._cached,
            ],
            # Nothing of the user's runs in our workflows; every stored history is replayed in the sandbox by the tests.
            workflow_runner=temporalio.worker.UnsandboxedWorkflowRunner(),
            build_id=sojourn.__version__,
            max_cached_workflows=max_cached_runs,
            max_concurrent_activities=MAX_ACTIVITIES,
            sticky_queue_schedule_to_start_timeout=STICKY,
            max_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
            default_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
            graceful_shutdown_timeout=drain,
        )

    async def run(self) -> None:
        """Serve until cancelled or `shutdown()`; a fatal error of the worker is raised."""
        await self._open()
        try:
            await self._worker.run()
        finally:
            await self._close()

    async def ready(self) -> None:
        """Wait until the app is open and its runs are served."""
        await self._opened.wait()

    async def shutdown(self) -> None:
        """Stop taking work, let what is in flight end, and return."""
        await self._worker.shutdown()

    async def __aenter__(self) -> Self:
        """Start serving."""
        await self._open()
        await self._worker.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Drain and stop."""
        try:
            await self._worker.__aexit__(kind, error, trace)
        finally:
            await self._close()

    async def _open(self) -> None:
        await self._app.open()
        await self._watching.enter_async_context(self._registered.watching(self._temporal))
        await self._watching.enter_async_context(self._cached.watching(self._worker))
        self._opened.set()

    async def _close(self) -> None:
        await self._watching.aclose()
        await self._app.close()


def serve(app: Served, *, task_queue: str | None = None, metrics_port: str | None = None) -> None:
    """Serve until SIGTERM or Ctrl-C, then drain; logs are configured where the program has not done so.

    Raises:
        SystemExit: code that a tool has left on the event loop cancelled the worker; with status 1.
    """
    configure_logs()
    try:
        endure(
            lambda stop: serve_forever(app, task_queue=task_queue, metrics_port=metrics_port, stop=stop),
            drain=DRAIN,
        )
    finally:
        stop_core_logging()


async def serve_forever(
    app: Served,
    *,
    task_queue: str | None = None,
    address: str | None = None,
    namespace: str | None = None,
    metrics_port: str | None = None,
    stop: Stop | None = None,
) -> None:
    """Wait for a server, serve until SIGTERM or SIGINT, then drain.

    A second signal during the drain ends it at once; what was in flight is then retried elsewhere.

    Args:
        app: What to serve.
        task_queue: Where to look for work.
        address: The server's.
        namespace: In it.
        metrics_port: Where to serve the Temporal SDK's own metrics; `SOJOURN_METRICS_PORT`, else nowhere.
        stop: What tells when to stop, in place of the two signals.

    Raises:
        DefinitionError: a setting cannot be read, or something else listens on the metrics port.
    """
    options = settings.connect_options(address, namespace)
    at = settings.metrics_port(metrics_port)
    options["runtime"] = runtime_with_metrics(at) if at else logging_runtime()
    stop = stop or _stop_at_signals()
    try:
        client = await _connected(options, stop.asked)
        if client is not None:
            await _serve(Worker(app, client, task_queue=task_queue), app, client, stop.asked)
    except asyncio.CancelledError:
        if not stop.at_once:
            raise


def _stop_at_signals() -> Stop:
    """A stop that SIGTERM and SIGINT ask for, on a loop that others made."""
    stop, main = Stop(), asyncio.current_task()
    assert main is not None
    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, stop.ask, main)
    return stop


async def _serve(worker: Worker, app: Served, client: temporalio.client.Client, stop: asyncio.Event) -> None:
    why_not = await search_attributes.register(client)
    if why_not:
        _log.warning("search_attributes_not_registered", reason=why_not, needed_by="sojourn list")
    running = asyncio.create_task(worker.run())
    stopping = asyncio.create_task(stop.wait())
    ready = asyncio.create_task(worker.ready())
    await asyncio.wait({running, stopping, ready}, return_when=asyncio.FIRST_COMPLETED)
    if not ready.cancel():
        _log.info(
            "worker_ready",
            task_queue=worker.task_queue,
            namespace=client.namespace,
            address=client.service_client.config.target_host,
            agents=app.list_agents(),
            planners=_planners(app),
        )
    await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not running.done():
        _log.info("worker_draining", at_most_seconds=DRAIN.total_seconds())
        await worker.shutdown()
    stopping.cancel()
    await running
    _log.info("worker_stopped")


def _planners(app: Served) -> dict[str, str]:
    """By agent: the model that decides, or `code`."""
    agents = [agent for id in app.list_agents() if (agent := app.agent(id))]
    return {agent.id: getattr(agent.planner, "model_name", "code") for agent in agents}


async def _connected(options: dict[str, Any], stop: asyncio.Event) -> temporalio.client.Client | None:
    """A client, however long the server takes to come up; None when told to stop meanwhile."""
    delay = 0.5
    while not stop.is_set():
        try:
            return await connect(options)
        except ServerUnavailable as error:
            _log.warning(
                "waiting_for_server", address=options["target_host"], retry_in=delay, reason=str(error)
            )
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), delay)
        delay = min(delay * 2, 10.0)
    return None

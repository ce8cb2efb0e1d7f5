"""Serve the runs of an app on one task queue.

`shell()` imports the workflow and the activities, from an installed wheel or from a source tree; no
other code of the library does.
"""

import asyncio
import contextlib
import hashlib
import importlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Any, Protocol, Self

import structlog
import temporalio.client
import temporalio.service
import temporalio.worker
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import WorkerDeploymentConfig

import sojourn
from sojourn import search_attributes
from sojourn.connection import settings
from sojourn.connection.announcements import AnnouncedWorker, Announcement, has_poller
from sojourn.connection.connect import connect
from sojourn.connection.tenants import look_up_tenants
from sojourn.errors import ServerUnavailable
from sojourn.logs import configure_logs
from sojourn.logs.activities import ActivityLogs
from sojourn.logs.configure import lead_to_logging
from sojourn.logs.temporal import logging_runtime, runtime_with_metrics, stop_core_logging
from sojourn.serving.hardening.loop_guard import SIGNALS, Stop, end_quietly, new_event_loop, run_guarded
from sojourn.serving.hardening.loop_watch import stalls_of
from sojourn.serving.hardening.lost_workers import FirstTime
from sojourn.serving.hardening.workflow_tasks import TaskExecutor, Unsandboxed, serve_by_whole_tasks
from sojourn.serving.health import WorkerHealth
from sojourn.serving.quota_broker import QuotaBroker, Quotas, ledger_queue
from sojourn.serving.run_cache import CachedRuns, PresentRuns
from sojourn.telemetry import missing_interceptors

__all__ = ["Served", "Shell", "Worker", "serve", "serve_forever", "shell"]


class Served(Protocol):
    @property
    def name(self) -> str | None: ...

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    @property
    def versioning(self) -> str: ...

    @property
    def digest(self) -> str: ...

    @property
    def tenants(self) -> Quotas | None: ...

    def list_agents(self) -> list[str]: ...

    def denied_once_tainted(self) -> dict[str, list[str]]: ...

    def agent(self, agent_id: str) -> Any: ...


DRAIN = timedelta(seconds=30)
"""How long activities in flight may run after a stop.

Then they are cancelled, and another worker retries them.
"""

FIRST_POLL = 10.0
"""Longest wait for the server to list the worker's first poll, in seconds."""

MAX_ACTIVITIES = 500
"""Most activities at once: one that waits for a model takes little. Sync tools have a limit of their own."""

MAX_EAGER = 32
"""Most calls of one step that start at once, without a dispatch, on the worker that has the run: as many as are in flight by default."""

MAX_CACHED_RUNS = 2_000
"""Most runs in memory.

If more are active, steps replay the histories of evicted runs.
"""

MAX_CACHED_BYTES = 256_000_000
"""Most bytes of the runs in memory together: 170 runs whose transcripts of 1.5 MB do not compress."""

HEARTBEAT_THROTTLE = timedelta(seconds=2)
"""Longest interval in which the SDK holds heartbeats back: a tool gets a cancellation with a heartbeat's response."""

MAX_FETCHED = 3
"""Most payloads of a workflow task that are fetched or stored at once, as in the SDK."""

STICKY = timedelta(seconds=2)
"""How long only the worker that has a run in memory gets its tasks, even if dead.

The SDK's default is 10 s.
"""

_log = structlog.get_logger("sojourn.worker")


@dataclass(frozen=True, slots=True)
class Shell:
    workflows: Sequence[type]
    activities: Sequence[Any]
    ledgers: Sequence[type] = ()
    """The workflow of tenants with quotas, for a task queue of its own."""


def shell(app: Served, *, transcripts: Any = None, broker: QuotaBroker | None = None) -> Shell:
    """Return the workflow and the activities that a worker registers.

    They come from the wheel's `sojourn.service`, or from a source tree.
    """
    try:
        importlib.import_module("sojourn.service")
        prefix = "sojourn.service."
    except ModuleNotFoundError:
        prefix = ""
    agent_run = importlib.import_module(f"{prefix}workflows.agent_run")
    notices = importlib.import_module(f"{prefix}workflows.notices")
    plan = importlib.import_module(f"{prefix}activities.plan")
    execute_tool = importlib.import_module(f"{prefix}activities.execute_tool")
    approvals = importlib.import_module(f"{prefix}activities.approvals")
    archive = importlib.import_module(f"{prefix}activities.transcripts")
    branches = importlib.import_module(f"{prefix}activities.branches")
    ledger = importlib.import_module(f"{prefix}workflows.tenant_ledger")
    delivery = importlib.import_module(f"{prefix}activities.delivery")
    first_time = FirstTime()
    return Shell(
        workflows=[
            agent_run.AgentRun,
            notices.NoticeDelivery,
            notices.ScheduledMessageRun,
            ledger.TenantLedger,
        ],
        activities=[
            plan.PlanActivity(app, transcripts, first_time, broker).plan,
            execute_tool.ExecuteToolActivity(app, first_time=first_time).execute_tool,
            approvals.CheckApprovalActivity(app).check_approval,
            approvals.JudgeApproverActivity(app).judge_approver,
            approvals.CheckEditActivity(app).check_edit,
            archive.StoreTranscriptActivity(app).store_transcript,
            archive.ArchiveEventsActivity(app).archive_events,
            branches.ReadBranchActivity(app).read_branch,
            delivery.DeliverNoticeActivity(app).deliver_notice,
            delivery.SendMessageActivity(app).send_message,
            delivery.yield_once,
        ],
        ledgers=[ledger.TenantLedger],
    )


class Worker:
    """Serves an app: an async context manager, or `await worker.run()`.

    Args:
        app: The app to serve.
        client: A Temporal client with `sojourn.data_converter`, or a `sojourn.Client`.
        task_queue: The task queue to poll; by default the client's, else `SOJOURN_TASK_QUEUE`, else the app's name.
        drain: How long activities in flight may run after a stop.
        max_activities: Most plans and calls at once; by default `SOJOURN_MAX_ACTIVITIES`, else 500.
        max_cached_runs: Most runs in memory.
        max_cached_bytes: Most bytes of the runs in memory together.
    """

    def __init__(
        self,
        app: Served,
        client: Any,
        *,
        task_queue: str | None = None,
        drain: timedelta = DRAIN,
        max_activities: int | None = None,
        max_cached_runs: int = MAX_CACHED_RUNS,
        max_cached_bytes: int = MAX_CACHED_BYTES,
    ) -> None:
        end_quietly()
        lead_to_logging()
        temporal: temporalio.client.Client = getattr(client, "temporal", client)
        look_up_tenants(temporal)
        scope = app.name or settings.DEFAULT_TASK_QUEUE
        self._broker = QuotaBroker(temporal, app.tenants, scope) if app.tenants else None
        definitions = shell(app, broker=self._broker)
        self._app = app
        named = settings.task_queue(task_queue or getattr(client, "task_queue", None))
        self.task_queue = named or scope
        self._opened = asyncio.Event()
        self._temporal = temporal
        about = AnnouncedWorker(
            app=app.name or "",
            folder=hashlib.sha256(os.getcwd().encode()).hexdigest()[:8],
            task_queue=self.task_queue,
            agents=frozenset(app.list_agents()),
            process=temporal.identity,
            build=sojourn.__version__,
        )
        self._announcing = Announcement(temporal, about)
        self._present = PresentRuns(self._broker and self._broker.follow)
        self._cached = CachedRuns(self._present, max_cached_bytes)
        self._watching = contextlib.AsyncExitStack()
        self._executor = TaskExecutor()
        self._worker = temporalio.worker.Worker(
            temporal,
            task_queue=self.task_queue,
            workflows=definitions.workflows,
            activities=definitions.activities,
            interceptors=[
                *missing_interceptors(temporal.config()["interceptors"]),
                ActivityLogs(),
                self._present,
            ],
            # No user code runs in the workflow, and the tests replay every stored history in a sandbox.
            workflow_runner=Unsandboxed(),
            workflow_task_executor=self._executor,
            **_version_of(app),
            max_cached_workflows=max_cached_runs,
            max_concurrent_activities=settings.max_activities(max_activities) or MAX_ACTIVITIES,
            # An eager activity passes the queue in which tenants take turns.
            disable_eager_activity_execution=settings.fair(),
            max_eager_activity_reservations_per_workflow_task=MAX_EAGER,
            sticky_queue_schedule_to_start_timeout=STICKY,
            max_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
            default_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
            graceful_shutdown_timeout=drain,
            max_workflow_task_external_storage_concurrency=_fetch_limit(temporal),
        )
        serve_by_whole_tasks(self._worker)
        # A queue and pollers of its own: neither a backlog of runs nor the ramp of a deployment delays an admission.
        self._ledgers = self._broker and temporalio.worker.Worker(
            temporal,
            task_queue=ledger_queue(scope),
            workflows=definitions.ledgers,
            workflow_runner=temporalio.worker.UnsandboxedWorkflowRunner(),
            sticky_queue_schedule_to_start_timeout=STICKY,
        )

    def __repr__(self) -> str:
        return f"<Worker task_queue={self.task_queue} of {self._app!r}>"

    async def run(self) -> None:
        """Serve until cancelled or shut down.

        A fatal error of Temporal's worker is raised.
        """
        await self._open()
        try:
            await self._worker.run()
        finally:
            await self._close()

    async def ready(self) -> None:
        """Wait until the app is open.

        With `run()`, polling starts right after.
        """
        await self._opened.wait()

    async def shutdown(self) -> None:
        """Stop polling, wait at most `drain` for work in flight, and return."""
        self._announcing.leave()
        await self._worker.shutdown()

    async def __aenter__(self) -> Self:
        await self._open()
        try:
            await self._worker.__aenter__()
        except BaseException:
            await self._close()
            raise
        try:
            await self._until_polling()
        except BaseException as error:  # canceled: a block that never began ends nothing by itself
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def _until_polling(self) -> None:
        # Who starts a run first thing in the block would find no worker on a busy machine.
        with contextlib.suppress(TimeoutError, temporalio.service.RPCError):
            async with asyncio.timeout(FIRST_POLL):
                while not await has_poller(self._temporal, self._worker.task_queue):  # noqa: ASYNC110 - the server sends no event
                    await asyncio.sleep(0.02)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._announcing.leave()
        try:
            await self._worker.__aexit__(kind, error, trace)
        finally:
            await self._close()

    async def _open(self) -> None:
        if fault := await search_attributes.register(self._temporal):
            _log.warning("search_attributes_not_checked", reason=fault)
        try:
            await self._app.open()
            for agent_id, tools in self._app.denied_once_tainted().items():
                _log.warning("tainted_calls_denied", agent_id=agent_id, tools=tools[:10])
            self._watching.enter_context(stalls_of(asyncio.get_running_loop()).watch())
            await self._watching.enter_async_context(self._present.watching())
            await self._watching.enter_async_context(self._cached.watching(self._worker))
            if self._broker and self._ledgers:
                self._broker.open()
                await self._watching.enter_async_context(self._ledgers)
                self._watching.push_async_callback(self._broker.close)
        except BaseException:
            await self._close()
            raise
        self._announcing.begin()
        self._opened.set()

    async def _close(self) -> None:
        await self._announcing.close()
        await self._watching.aclose()
        self._executor.shutdown(wait=False)
        await self._app.close()


def _version_of(app: Served) -> dict[str, Any]:
    """Return the options that say which version the worker is.

    Without a deployment, it takes the runs of every version.
    """
    if (name := settings.deployment()) is None:
        return {"build_id": sojourn.__version__}
    pinned, moving = VersioningBehavior.PINNED, VersioningBehavior.AUTO_UPGRADE
    return {
        "deployment_config": WorkerDeploymentConfig(
            version=WorkerDeploymentVersion(name, settings.build_id() or app.digest),
            use_worker_versioning=True,
            default_versioning_behavior=pinned if app.versioning == "pinned" else moving,
        )
    }


def _fetch_limit(client: temporalio.client.Client) -> int:
    """Return how many payloads a workflow task fetches, as few as none at once."""
    return MAX_FETCHED if client.data_converter.external_storage else 1


def serve(
    app: Served,
    *,
    task_queue: str | None = None,
    metrics_port: str | None = None,
    health_port: str | None = None,
) -> None:
    """Serve until SIGTERM or Ctrl-C, then drain, and configure the logs before.

    Raises:
        DefinitionError: A setting is invalid.
        SystemExit: Foreign code on the event loop cancelled the worker; with status 1.
    """
    configure_logs()
    try:
        run_guarded(
            lambda stop: serve_forever(
                app, task_queue=task_queue, metrics_port=metrics_port, health_port=health_port, stop=stop
            ),
            drain=DRAIN,
            new_loop=asyncio.new_event_loop if settings.event_loop() == "asyncio" else new_event_loop,
        )
    finally:
        stop_core_logging()


async def serve_forever(
    app: Served,
    *,
    task_queue: str | None = None,
    metrics_port: str | None = None,
    health_port: str | None = None,
    stop: Stop | None = None,
) -> None:
    """Wait for a server, serve until SIGTERM or SIGINT, then drain.

    A second signal ends the drain at once; other workers then attempt the calls in flight again.

    Args:
        app: The app to serve.
        task_queue: The task queue to poll; `SOJOURN_TASK_QUEUE`, else the app's name.
        metrics_port: The port, or address and port, of the SDK's own metrics; `SOJOURN_METRICS_PORT`, else none.
        health_port: The port, or address and port, of the health probe; `SOJOURN_HEALTH_PORT`, else none.
        stop: The request to stop, in place of the two signals.

    Raises:
        DefinitionError: A setting is invalid, or a port cannot be served.
    """
    options = settings.connect_options()
    at = settings.metrics_address(metrics_port)
    options["runtime"] = runtime_with_metrics(at) if at else logging_runtime()
    probed_at = settings.health_address(health_port)
    stop, health = stop or _stop_at_signals(), WorkerHealth()
    try:
        async with health.served(probed_at):
            health.client = client = await _connect(options, stop.asked)
            if client is not None:
                worker = Worker(app, client, task_queue=task_queue)
                await _serve(worker, app, client, stop.asked, health)
    except asyncio.CancelledError:
        if not stop.at_once:
            raise


def _stop_at_signals() -> Stop:
    stop, main = Stop(), asyncio.current_task()
    assert main is not None
    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, stop.ask, main)
    return stop


async def _serve(
    worker: Worker, app: Served, client: temporalio.client.Client, stop: asyncio.Event, health: WorkerHealth
) -> None:
    health.state = "opening"
    running = asyncio.create_task(worker.run())
    stopping = asyncio.create_task(stop.wait())
    ready = asyncio.create_task(worker.ready())
    await asyncio.wait({running, stopping, ready}, return_when=asyncio.FIRST_COMPLETED)
    if not ready.cancel():
        health.state = "polling"
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
        health.state = "draining"
        _log.info("worker_draining", at_most_seconds=DRAIN.total_seconds())
        await worker.shutdown()
    stopping.cancel()
    await running
    _log.info("worker_stopped")


def _planners(app: Served) -> dict[str, str]:
    agents = [agent for id in app.list_agents() if (agent := app.agent(id))]
    return {agent.id: getattr(agent.planner, "model_name", "code") for agent in agents}


async def _connect(options: dict[str, Any], stop: asyncio.Event) -> temporalio.client.Client | None:
    """Connect, again and again until the server answers or the worker is stopped."""
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

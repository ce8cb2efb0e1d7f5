"""Check the Temporal service's response time, namespace, attributes and clock."""

import asyncio
import contextlib
import statistics
import time
import uuid
from datetime import timedelta

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    DescribeTaskQueueRequest,
    GetSystemInfoRequest,
    PollWorkflowTaskQueueRequest,
)
from temporalio.client import Client
from temporalio.common import Priority
from temporalio.service import RPCError, RPCStatusCode

from sojourn import search_attributes
from sojourn.checks import Check
from sojourn.values.visible import format_duration

__all__ = ["check_clock", "check_fairness", "check_namespace", "check_search_attributes", "check_server"]

MAX_CLOCK_DIFFERENCE = 5.0
"""Most seconds between this machine's clock and the server's."""

SHORT_RETENTION = timedelta(days=3)
"""With a shorter retention period the check names `sojourn export`."""

_REQUESTS = 5
"""Requests that are timed."""
_POLL_TIMEOUT = timedelta(seconds=20)
_POLLER_DEADLINE = 3.0
"""Seconds until the server has to list our poll."""


async def check_server(client: Client) -> Check:
    """Report the server's version, and the median of its response times."""
    times: list[float] = []
    version = ""
    for _ in range(_REQUESTS):
        began = time.perf_counter()
        answer = await client.workflow_service.get_system_info(GetSystemInfoRequest())
        version = answer.server_version
        times.append(time.perf_counter() - began)
    host = client.service_client.config.target_host
    return Check(
        "server", True, f"Temporal {version} at {host}, answers in {statistics.median(times) * 1000:.1f} ms"
    )


async def check_namespace(client: Client) -> Check:
    """Check that the namespace exists, and report its retention period."""
    name = client.namespace
    try:
        answer = await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=name))
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return Check(
                "namespace",
                False,
                f"{name!r} does not exist on this server",
                f"set TEMPORAL_NAMESPACE, or: temporal operator namespace create --namespace {name} --retention 720h",
            )
        return _not_checked("namespace", error)
    kept = answer.config.workflow_execution_retention_ttl.ToTimedelta()
    retention = f"{name!r} keeps closed runs for {format_duration(kept)}"
    if kept < SHORT_RETENTION:
        return Check("namespace", True, f"{retention}; to keep a run longer: sojourn export RUN")
    return Check("namespace", True, retention)


async def check_search_attributes(client: Client) -> Check:
    """Check that the search attributes of the lists of runs are registered."""
    try:
        known = await client.operator_service.list_search_attributes(
            ListSearchAttributesRequest(namespace=client.namespace)
        )
    except RPCError as error:
        return _not_checked("search attributes", error)
    missing = [name for name in search_attributes.NAMES if name not in known.custom_attributes]
    if missing:
        return Check(
            "search attributes",
            False,
            f"{', '.join(missing)} not registered",
            search_attributes.HOW_TO_REGISTER.partition("; ")[2],
        )
    return Check("search attributes", True, ", ".join(search_attributes.NAMES))


async def check_clock(client: Client) -> Check:
    """Compare this machine's clock with the server's timestamp of a poll."""
    queue = TaskQueue(name=f"sojourn-doctor-{uuid.uuid4().hex}")
    poll = PollWorkflowTaskQueueRequest(
        namespace=client.namespace, task_queue=queue, identity="sojourn doctor"
    )
    began = time.time()
    polling = asyncio.create_task(
        client.workflow_service.poll_workflow_task_queue(poll, timeout=_POLL_TIMEOUT)
    )
    try:
        polled = await _poll_time(client, queue)
    except RPCError as error:
        return _not_checked("clock", error)
    finally:
        polling.cancel()
        with contextlib.suppress(asyncio.CancelledError, RPCError):
            await polling
    if polled is None:
        return Check("clock", None, "the server does not report its time")
    off = max(began - polled, polled - time.time(), 0.0)
    if off > MAX_CLOCK_DIFFERENCE:
        return Check(
            "clock",
            False,
            f"differs from the server's by {off:.0f} s",
            "synchronize both with NTP: deadlines depend on them",
        )
    return Check("clock", True, "agrees with the server's" if off < 1 else f"{off:.1f} s off the server's")


async def _poll_time(client: Client, queue: TaskQueue) -> float | None:
    request = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=queue,
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    )
    deadline = time.monotonic() + _POLLER_DEADLINE
    while time.monotonic() < deadline:
        answer = await client.workflow_service.describe_task_queue(request)
        if answer.pollers:
            return answer.pollers[0].last_access_time.ToNanoseconds() / 1e9
        await asyncio.sleep(0.02)
    return None


async def check_fairness(client: Client) -> Check:
    """Check whether the server takes tenants in turn.

    It has no way to say so. On a task queue of its own, 24 starts of one tenant wait before one of
    another, and eight are fetched, since a queue may have four partitions. They are of no agent, and are
    terminated.
    """
    queue = f"sojourn-doctor-{uuid.uuid4().hex}"
    began = [f"{queue}-{number}-{tenant}" for number, tenant in enumerate("a" * 24 + "b")]
    try:
        for workflow_id in began:
            await client.start_workflow(
                "sojourn-doctor",
                id=workflow_id,
                task_queue=queue,
                execution_timeout=_POLL_TIMEOUT,
                priority=Priority(fairness_key=workflow_id[-1]),
            )
        poll = PollWorkflowTaskQueueRequest(
            namespace=client.namespace, task_queue=TaskQueue(name=queue), identity="sojourn doctor"
        )
        fetched = [
            await client.workflow_service.poll_workflow_task_queue(poll, timeout=_POLL_TIMEOUT)
            for _ in range(8)
        ]
    except RPCError as error:
        return _not_checked("fairness", error)
    finally:
        for workflow_id in began:
            with contextlib.suppress(RPCError):
                await client.get_workflow_handle(workflow_id).terminate("sojourn doctor has checked")
    if any(task.workflow_execution.workflow_id.endswith("b") for task in fetched):
        return Check("fairness", True, "tenants take turns where work waits for a worker")
    return Check(
        "fairness",
        False,
        "what a tenant starts first goes first, however much that is",
        "set matching.enableFairness to true in the server's dynamic configuration; on Temporal Cloud, enable Fairness for the namespace",
    )


def _not_checked(name: str, error: RPCError) -> Check:
    """Return a result if the server forbids or lacks a check, or raise the error."""
    if error.status in (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNIMPLEMENTED):
        return Check(name, None, f"could not be checked: {error.message[:200]}")
    raise error

"""The versions of a worker deployment, and which of them gets new runs.

Temporal keeps them. A version is the build id of workers that joined the deployment. New runs begin on the
current version, some of them on the one that ramps. A pinned run stays where it began.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from temporalio.api.deployment.v1 import WorkerDeploymentInfo
from temporalio.api.enums.v1 import VersionDrainageStatus
from temporalio.api.workflowservice.v1 import (
    DescribeWorkerDeploymentRequest,
    ListWorkerDeploymentsRequest,
    SetWorkerDeploymentCurrentVersionRequest,
    SetWorkerDeploymentRampingVersionRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from sojourn.client.listing import query_literal
from sojourn.connection.rpc_errors import translate_error
from sojourn.errors import InvalidInput

__all__ = [
    "Deployment",
    "DeploymentVersion",
    "find_deployments",
    "promote",
    "ramp",
    "read_deployment",
    "rollback",
]

PATIENCE = 15.0
"""Longest wait for the server to know a version, in seconds."""

_NOT_YET = (RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION)

_RUNNING_ON = (
    "WorkflowType = 'AgentRun' AND ExecutionStatus = 'Running' AND TemporalWorkerDeploymentVersion = "
)


@dataclass(frozen=True, slots=True)
class DeploymentVersion:
    build_id: str
    state: str
    """`current`, `ramping`, `draining` while pinned runs are open on it, `drained`, or `inactive`."""
    percentage: float = 0.0
    """The share of new runs that begin on it, if it ramps."""
    created_at: datetime | None = None
    was_current_at: datetime | None = None
    """When it was the current version for the last time."""
    open_runs: int = 0
    """The open runs that were last on it."""


@dataclass(frozen=True, slots=True)
class Deployment:
    name: str
    versions: Sequence[DeploymentVersion]
    """The newest first."""

    @property
    def current(self) -> DeploymentVersion | None:
        return next((each for each in self.versions if each.state == "current"), None)


async def find_deployments(client: Client) -> list[str]:
    """Return the names of the namespace's deployments, sorted.

    Raises:
        SojournError: The server does not answer, or has no deployments.
    """
    found: list[str] = []
    request = ListWorkerDeploymentsRequest(namespace=client.namespace, page_size=100)
    try:
        while True:
            page = await client.workflow_service.list_worker_deployments(request, retry=True)
            found += [each.name for each in page.worker_deployments]
            if not page.next_page_token:
                return sorted(found)
            request.next_page_token = page.next_page_token
    except RPCError as error:
        raise translate_error(error, None) from error


async def read_deployment(client: Client, name: str) -> Deployment:
    """Return a deployment with its versions and their open runs.

    Raises:
        InvalidInput: There is no such deployment.
        SojournError: The server does not answer.
    """
    try:
        request = DescribeWorkerDeploymentRequest(namespace=client.namespace, deployment_name=name)
        info = (
            await client.workflow_service.describe_worker_deployment(request, retry=True)
        ).worker_deployment_info
        versions = [
            await _version_of(client, info, each)
            for each in sorted(info.version_summaries, key=lambda each: -each.create_time.ToMilliseconds())
        ]
    except RPCError as error:
        raise _fault(
            error, f"there is no deployment {name}; workers join it with SOJOURN_DEPLOYMENT={name}"
        ) from error
    return Deployment(name, versions)


async def promote(client: Client, name: str, build_id: str) -> None:
    """Make a version the current one, for new runs and moving ones.

    A version of workers that have just started may take a moment to be known, so this waits 15 s for it.

    Raises:
        InvalidInput: The deployment has no such version, or no worker of it polls.
        SojournError: The server does not answer.
    """
    request = SetWorkerDeploymentCurrentVersionRequest(
        namespace=client.namespace, deployment_name=name, build_id=build_id, identity=client.identity
    )
    give_up = time.monotonic() + PATIENCE
    while True:
        try:
            await client.workflow_service.set_worker_deployment_current_version(request, retry=True)
        except RPCError as error:
            if error.status in _NOT_YET and time.monotonic() < give_up:
                await asyncio.sleep(0.5)
                continue
            why = f"{build_id} cannot be the current version of {name}: {error.message}"
            raise _fault(error, why) from error
        return


async def ramp(client: Client, name: str, build_id: str, percentage: float) -> None:
    """Let a share of new runs begin on a version, or none with 0.

    Raises:
        InvalidInput: The deployment has no such version, or it is the current one.
        SojournError: The server does not answer.
    """
    request = SetWorkerDeploymentRampingVersionRequest(
        namespace=client.namespace,
        deployment_name=name,
        build_id=build_id if percentage else "",
        percentage=percentage,
        identity=client.identity,
    )
    try:
        await client.workflow_service.set_worker_deployment_ramping_version(request, retry=True)
    except RPCError as error:
        raise _fault(error, f"{build_id} cannot ramp in {name}: {error.message}") from error


async def rollback(client: Client, name: str) -> str:
    """End the ramp, else make the version current that was so before.

    Returns the build id of the version that is current then.

    Raises:
        InvalidInput: No other version was current before.
        SojournError: The server does not answer.
    """
    deployment = await read_deployment(client, name)
    ramping = next((each for each in deployment.versions if each.state == "ramping"), None)
    if ramping and deployment.current:
        await ramp(client, name, ramping.build_id, 0)
        return deployment.current.build_id
    before = [each for each in deployment.versions if each.was_current_at and each.state != "current"]
    if not before:
        raise InvalidInput(f"no other version of {name} was current before")
    last = max(before, key=lambda each: each.was_current_at or datetime.min.replace(tzinfo=UTC))
    await promote(client, name, last.build_id)
    return last.build_id


async def _version_of(client: Client, info: WorkerDeploymentInfo, summary: Any) -> DeploymentVersion:
    build_id, routing = summary.deployment_version.build_id, info.routing_config
    is_ramping = build_id == routing.ramping_deployment_version.build_id
    drainage = {
        VersionDrainageStatus.VERSION_DRAINAGE_STATUS_DRAINING: "draining",
        VersionDrainageStatus.VERSION_DRAINAGE_STATUS_DRAINED: "drained",
    }
    state = "ramping" if is_ramping else drainage.get(summary.drainage_status, "inactive")
    if build_id == routing.current_deployment_version.build_id:
        state = "current"
    count = await client.count_workflows(_RUNNING_ON + query_literal(f"{info.name}:{build_id}"))
    return DeploymentVersion(
        build_id=build_id,
        state=state,
        percentage=routing.ramping_version_percentage if state == "ramping" else 0.0,
        created_at=_time(summary, "create_time"),
        was_current_at=_time(summary, "last_current_time"),
        open_runs=count.count,
    )


def _time(summary: Any, name: str) -> datetime | None:
    return getattr(summary, name).ToDatetime(tzinfo=UTC) if summary.HasField(name) else None


def _fault(error: RPCError, why: str) -> Exception:
    is_refused = error.status in (
        RPCStatusCode.NOT_FOUND,
        RPCStatusCode.FAILED_PRECONDITION,
        RPCStatusCode.INVALID_ARGUMENT,
    )
    return InvalidInput(why) if is_refused else translate_error(error, None)

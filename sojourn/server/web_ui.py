"""Web UI: where the UI of a development server is, by the port of its frontend."""

import asyncio
import json
from http import HTTPStatus
from http.client import HTTPException
from typing import cast
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

from sojourn.server.ports import HOST

__all__ = ["find_ui"]

_WITHIN = 5.0
"""Seconds to wait for an answer."""

_PAUSE = 0.1
"""Seconds between two questions."""

_MOST = 1_000_000
"""Most bytes to read of one."""


async def find_ui(address: str, ui_port: int) -> str | None:
    """Return the URL of a server's UI at a port of this machine; None if there is none, or that of another server.

    Args:
        address: `host:port` of the server's frontend.
        ui_port: The port where its UI may be.
    """
    from temporalio.api.workflowservice.v1 import GetClusterInfoRequest  # noqa: PLC0415
    from temporalio.service import ConnectConfig, RPCError, ServiceClient  # noqa: PLC0415

    url = f"http://{HOST}:{ui_port}"
    try:
        async with asyncio.timeout(2 * _WITHIN):
            while (told := await asyncio.to_thread(_cluster_of, url)) is None:  # noqa: ASYNC110 - of another process
                await asyncio.sleep(_PAUSE)
            service = await ServiceClient.connect(ConnectConfig(target_host=address))
            cluster = await service.workflow_service.get_cluster_info(GetClusterInfoRequest())
    # The SDK raises RuntimeError when it cannot connect.
    except (OSError, ValueError, HTTPException, RPCError, RuntimeError, TimeoutError):
        return None
    return url if told and told == cluster.cluster_id else None


def _cluster_of(url: str) -> str | None:
    """Return the id of the cluster that a UI shows; empty if the answer is not that of a UI.

    None while the UI has no connection to its server: it connects anew a second after both have started.

    Raises:
        OSError: Nothing answers.
        HTTPException: What answers does not speak HTTP.
        ValueError: The answer is not JSON.
    """
    direct = build_opener(ProxyHandler({}))
    try:
        with direct.open(f"{url}/api/v1/cluster-info", timeout=_WITHIN) as answer:
            told = cast("object", json.loads(answer.read(_MOST)))
    except HTTPError as error:
        with error:
            if error.code == HTTPStatus.SERVICE_UNAVAILABLE:
                return None
            raise
    return str(cast("dict[str, object]", told).get("clusterId", "")) if isinstance(told, dict) else ""

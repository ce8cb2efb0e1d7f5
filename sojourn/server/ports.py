"""The ports of a development server, its health, and its web UI."""

import asyncio
import json
import random
import re
import socket
from datetime import timedelta
from http import HTTPStatus
from http.client import HTTPException
from typing import cast
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

__all__ = ["HOST", "LAST_PORT", "find_ui", "is_free", "is_serving", "pick", "port_in_use", "ui_port_of"]

LAST_PORT = 65_535

HOST = "127.0.0.1"
"""The server listens on the loopback interface only: it has no authentication."""

# Below every system's range of ephemeral ports. Any outgoing connection may take a port from that range while a
# server restarts; a client that keeps connecting to the port of a dead server may even connect to itself.
_FIRST, _LAST = 20_000, 31_767
_UI_ABOVE = 1_000
_HTTP_SERVICE = 8_460
"""The usual port of the HTTP service, which the UI of a server at 7460 leaves free."""

_IN_USE = re.compile(r":(\d+): bind: address already in use")


def is_free(port: int) -> bool:
    """Return whether a server can listen on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def pick(asked: int | None, usual: int) -> int:
    """Return a port to try."""
    if asked:
        return asked
    if asked is None and is_free(usual):
        return usual
    while True:
        port = random.randint(_FIRST, _LAST)  # noqa: S311 - not a secret
        if is_free(port) and is_free(ui_port_of(port)):
            return port


def ui_port_of(port: int) -> int:
    """Return the port of the UI: 1000 above the frontend's, or one next to it.

    `temporal server start-dev` chooses the same, but for the port of the HTTP service.
    """
    above = port + _UI_ABOVE if port + _UI_ABOVE <= LAST_PORT else port - _UI_ABOVE
    return above + 1 if above == _HTTP_SERVICE else above


def port_in_use(log: str) -> int | None:
    """Return the port that a server's log reports as already in use, or None."""
    match = _IN_USE.search(log)
    return int(match[1]) if match else None


async def is_serving(
    address: str, *, namespace: str = "default", within: timedelta = timedelta(seconds=1)
) -> bool:
    """Return whether a healthy Temporal server with the namespace is at the address."""
    # Imported here, since it is slow, and a command that only searches for a binary does not need
    # it.
    from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest  # noqa: PLC0415
    from temporalio.service import ConnectConfig, RPCError, ServiceClient  # noqa: PLC0415

    try:
        async with asyncio.timeout(within.total_seconds()):
            service = await ServiceClient.connect(ConnectConfig(target_host=address))
            if not await service.check_health():
                return False
            await service.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=namespace))
    # The SDK raises RuntimeError when it cannot connect.
    except (RPCError, RuntimeError, TimeoutError):
        return False
    return True


_WITHIN = 5.0
"""Seconds to wait for an answer."""

_PAUSE = 0.1
"""Seconds between two questions."""

_MOST = 1_000_000
"""Most bytes to read of one."""


async def find_ui(address: str, ui_port: int) -> str | None:
    """Return the URL of a server's own UI at a port of this machine, or None."""
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
    """Return the id of the cluster that a UI shows, empty for another program.

    None while the UI has no connection to its server: it connects anew a second after both have started.
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

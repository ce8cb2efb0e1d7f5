"""Health: check whether a Temporal server serves."""

import asyncio
from datetime import timedelta

__all__ = ["is_serving"]


async def is_serving(
    address: str, *, namespace: str = "default", within: timedelta = timedelta(seconds=1)
) -> bool:
    """Whether a Temporal server answers at the address, is healthy, and has the namespace.

    Args:
        address: `host:port` of the frontend, without TLS.
        namespace: The namespace that the server must have.
        within: Time limit of the check; a server of another kind may never answer.
    """
    # Imported here, since it is slow, and a command that only searches a binary does not need it.
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

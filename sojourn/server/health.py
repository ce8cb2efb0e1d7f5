"""Ask a Temporal server whether it serves."""

import asyncio
from datetime import timedelta

__all__ = ["is_serving"]


async def is_serving(
    address: str, *, namespace: str = "default", within: timedelta = timedelta(seconds=1)
) -> bool:
    """Whether a Temporal server answers at the address, is healthy, and has the namespace.

    Args:
        address: `host:port` of the frontend, without TLS.
        namespace: The namespace it must have.
        within: How long to wait for the answer; another kind of server may never give one.
    """
    # Heavy: a command that only looks for a binary does without.
    from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest  # noqa: PLC0415
    from temporalio.service import ConnectConfig, RPCError, ServiceClient  # noqa: PLC0415

    try:
        async with asyncio.timeout(within.total_seconds()):
            service = await ServiceClient.connect(ConnectConfig(target_host=address))
            if not await service.check_health():
                return False
            await service.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=namespace))
    # RuntimeError is how the SDK says that it cannot connect.
    except (RPCError, RuntimeError, TimeoutError):
        return False
    return True

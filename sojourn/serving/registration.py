"""Registered: whether the namespace still has the search attributes of runs, as a worker sees it.

Without one of them, setting it fails the workflow task, again and again. So the worker checks periodically,
and its runs continue without: they are then not listed by agent, session or wait.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Collection
from datetime import timedelta

import structlog
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.worker import Interceptor, WorkflowInboundInterceptor, WorkflowInterceptorClassInput

from sojourn.search_attributes import HOW_TO_REGISTER, NAMES, UNREGISTERED

__all__ = ["LOOKED_AT_EVERY", "Registered"]

LOOKED_AT_EVERY = 20.0
"""Seconds between two checks."""

PATIENCE = timedelta(seconds=5)
"""Time limit of one check."""

_log = structlog.get_logger("sojourn.worker")


class Registered(Interceptor):
    """Which search attributes are missing; none until the first check."""

    def __init__(self) -> None:
        self.missing: Collection[str] = ()

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor] | None:
        """Let workflows read the missing search attributes."""
        input.unsafe_extern_functions[UNREGISTERED] = lambda: self.missing  # pyright: ignore[reportUnknownMemberType]
        return None

    async def look(self, client: Client) -> None:
        """Check, and log a change; a check that fails changes nothing."""
        asked = ListSearchAttributesRequest(namespace=client.namespace)
        try:
            known = await client.operator_service.list_search_attributes(asked, timeout=PATIENCE)
        except RPCError:
            return  # other code reports what is wrong with the server
        missing = tuple(name for name in NAMES if name not in known.custom_attributes)
        if missing and missing != self.missing:
            _log.warning("search_attributes_missing", missing=missing, mend=HOW_TO_REGISTER)
        elif self.missing and not missing:
            _log.info("search_attributes_registered")
        self.missing = missing

    @contextlib.asynccontextmanager
    async def watching(self, client: Client) -> AsyncGenerator[None]:
        """Check at once, and then periodically while the body runs."""
        await self.look(client)
        task = asyncio.create_task(self._watch(client))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def _watch(self, client: Client) -> None:
        while True:
            await asyncio.sleep(LOOKED_AT_EVERY)
            await self.look(client)

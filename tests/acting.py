"""Work of some tenant, as an activity of its runs does it."""

import asyncio
from typing import Any

from sojourn import Principal
from sojourn.serving.fair_slots import bind_tenant


async def as_tenant(tenant: str, call: Any, *arguments: Any) -> Any:
    """Call a coroutine function for a tenant."""

    async def act() -> Any:
        bind_tenant(Principal(subject="ana", tenant=tenant), "run")
        return await call(*arguments)

    return await asyncio.create_task(act())

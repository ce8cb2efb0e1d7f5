"""Slots of one event loop, which waiting tenants get in turn.

A slot is given to the tenant whose earlier ones are fewest, so a tenant with a long line delays no other.
Each is held by a name too, such as a tool, so that a subclass can bound that.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Hashable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Generic, TypeVar

from sojourn.contracts.principal import Principal
from sojourn.contracts.tenant_ids import tenant_in, tenant_part
from sojourn.values.fair_queue import FairQueue

__all__ = ["FairSlots", "bind_tenant", "running_tenant"]

Name = TypeVar("Name", bound=Hashable)


_tenant: ContextVar[str] = ContextVar("sojourn_tenant", default="")


def bind_tenant(principal: Principal | None, run_id: str) -> None:
    """Set whose work this is, for all that the present activity does.

    Temporal puts a run's fairness key on the tasks of its activities, and does not say it to a worker.
    """
    _tenant.set(tenant_part(principal.tenant) if principal else tenant_in(run_id) or "")


def running_tenant() -> str:
    """Return the tenant of the present work as run ids have it, or an empty text."""
    return _tenant.get()


class FairSlots(Generic[Name]):
    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.by_tenant: Counter[str] = Counter()
        """The slots that each tenant holds."""
        self.by_name: Counter[Name] = Counter()
        """The slots that each name holds."""
        self._waiting: FairQueue[_Waiter[Name]] = FairQueue()

    def is_free(self, tenant: str, name: Name) -> bool:  # noqa: ARG002 - for subclasses
        return self.by_tenant.total() < self.slots

    @asynccontextmanager
    async def slot(self, tenant: str, name: Name) -> AsyncGenerator[None]:
        """Hold a slot in the block, after a wait for it."""
        if self.is_free(tenant, name):
            self._take(tenant, name)
        else:
            await self._wait(tenant, name)
        try:
            yield
        finally:
            self._give_back(tenant, name)

    async def _wait(self, tenant: str, name: Name) -> None:
        waiter = _Waiter(tenant, name)
        self._waiting.push(tenant, waiter)
        try:
            await waiter.turn
        except asyncio.CancelledError:
            if waiter.turn.cancelled():
                self._waiting.remove(tenant, waiter)
            else:  # the slot was given at this moment
                self._give_back(tenant, name)
            raise

    def _take(self, tenant: str, name: Name) -> None:
        self.by_tenant[tenant] += 1
        self.by_name[name] += 1

    def _give_back(self, tenant: str, name: Name) -> None:
        self.by_tenant = self.by_tenant - Counter([tenant])
        self.by_name = self.by_name - Counter([name])
        while waiter := self._waiting.pop(self._may_take):
            self._take(waiter.tenant, waiter.name)
            waiter.turn.set_result(None)

    def _may_take(self, waiter: "_Waiter[Name]") -> bool:
        return not waiter.turn.done() and self.is_free(waiter.tenant, waiter.name)


class _Waiter(Generic[Name]):
    def __init__(self, tenant: str, name: Name) -> None:
        self.tenant = tenant
        self.name = name
        self.turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()

"""Availability: whether the Temporal server answers, checked once for everybody whose page waits for it."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar
from weakref import WeakKeyDictionary

from sojourn.console.once import Once
from sojourn.errors import ServerUnavailable
from sojourn.http.service import Service

__all__ = ["Availability", "availability_of"]

PATIENCE = 5.0
"""Seconds that a page may take before the server is checked, and that the server has to answer the check."""

FRESH = 5.0
"""Seconds for which the outcome of a check is used."""

T = TypeVar("T")


class Availability:
    """Checks whether the Temporal server of a service answers.

    Args:
        service: The service.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._once = Once()
        self.is_up = True
        """Whether the server answered the last check."""

    async def check(self) -> bool:
        """Whether the server answers now."""
        self.is_up = await self._once.read("server", FRESH, lambda: self._service.is_up(PATIENCE))
        return self.is_up

    async def while_up(self, making: Awaitable[T]) -> T:
        """The result of what is awaited, however long it takes while the server answers.

        Raises:
            ServerUnavailable: The server does not answer.
        """
        task = asyncio.ensure_future(making)
        try:
            while not (await asyncio.wait({task}, timeout=PATIENCE))[0]:
                if not await self.check() and not task.done():
                    raise ServerUnavailable("the Temporal server does not answer; is it running?")
            return task.result()
        finally:
            task.cancel()


_KNOWN: WeakKeyDictionary[Service, Availability] = WeakKeyDictionary()


def availability_of(service: Service) -> Availability:
    """The availability of a service's server."""
    return _KNOWN.setdefault(service, Availability(service))
